"""make conformance: new vectors of LiteRT's interpreter, as the shared ones, and 0 wrong."""

import json
import sys

import numpy as np
import pytest

from tests.bench import conformance
from tests.bench.conformance import CLAIMS, MODES, judged, main, records_of
from tests.support.conformance import load, needs_vectors
from tests.support.litert import needs_litert
from tests.support.tflite_cases import CASES
from tests.support.thoroughness import THOROUGH

COUNT = 20 if THOROUGH else 3


def test_every_operator_is_claimed_and_every_claim_is_of_a_mode():
    assert CASES.keys() == CLAIMS.keys()
    assert all(claim.targets.keys() <= MODES.keys() for claim in CLAIMS.values())
    assert all("litert" in claim.targets["ref"] for claim in CLAIMS.values())


@needs_litert
@pytest.mark.parametrize("op", CASES)
def test_targets_compute_what_the_interpreter_does(op):
    rows = judged(op, records_of(op, COUNT, seed=7))
    assert [row for row in rows if row.wrong] == []
    assert all(row.values >= COUNT for row in rows)


def run(monkeypatch, folder, *options):
    monkeypatch.setattr(sys, "argv", ["conformance", "--folder", str(folder), *options])
    return main()


@needs_litert
@needs_vectors
def test_files_have_the_format_of_the_shared_ones(monkeypatch, tmp_path):
    assert run(monkeypatch, tmp_path, "--count", "2", "--op", "mean") == 0
    (path,) = tmp_path.iterdir()
    made, theirs = json.loads(path.read_text("utf-8")), load("tflite_mean", "cases")
    assert path.name == "tflite_mean.json"
    for record in made["cases"]:
        assert {*record} - {"expected_all", "modes"} | {"expected"} == {*theirs[0]}
        assert [{*each} for each in record["tensors"]] == [
            {*each} for each in theirs[0]["tensors"]
        ]


@needs_litert
def test_the_same_seed_makes_the_same_vectors_and_another_one_others():
    first, again, other = (records_of("mul", 1, seed) for seed in (1, 1, 2))
    assert first == again != other


@needs_litert
def test_a_wrong_value_is_counted_and_the_run_fails(monkeypatch, tmp_path, capsys):
    claim = CLAIMS["prelu"]

    def off_by_one(record, target):
        codes = np.array(claim.codes(record, target))
        codes.flat[3] += 1
        return codes

    spoiled = conformance.Claim(off_by_one, {"ref": ("litert",)})
    monkeypatch.setitem(CLAIMS, "prelu", spoiled)
    assert run(monkeypatch, tmp_path, "--count", "2", "--op", "prelu") == 1
    assert "| prelu | ref | litert | 2 | 512 | 2 |" in capsys.readouterr().out


def test_without_the_interpreter_it_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(conformance, "IS_THERE", False)
    assert run(monkeypatch, tmp_path) == 1
    assert "no ai-edge-litert" in capsys.readouterr().out
