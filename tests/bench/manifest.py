"""models/zoo.toml: the models that are measured, and how each is fed and scored."""

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Preprocessing, Samples, Session, input_specs, open_samples
from calibration.presets import preprocessing

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "models"
ZOO = Path(os.environ.get("QPASSES_ZOO") or ROOT.parent / "shared" / "zoo").resolve()

Model = onnx.ModelProto
Score = Callable[[Model], tuple[float, float]]
"""Share of right answers and output SQNR in dB (200 at most) of a model."""

METRICS = {
    "top-1": "{:.2%}",
    "F1": "F1 {:.3f}",
    "PSNR": "{:.2f} dB",
    "degrees": "{:.2f} degrees off",
    "agreement": "{:.2%} as float",
}
"""How scores are shown."""


@dataclass(frozen=True)
class Entry:
    """One model of the manifest; see models/zoo.toml for the fields."""

    name: str
    expected: Mapping[str, Any]
    zoo: bool = False
    file: str = ""
    data: str = ""
    samples: int | None = None
    preprocess: str | None = None
    test: str = ""
    labels: str = ""
    metric: str = "top-1"
    measured: bool = True
    tolerance: Mapping[str, float] = field(default_factory=dict)

    @property
    def model(self) -> Path:
        """The float model."""
        file = self.file or f"models/{self.name}.onnx"
        return (ZOO if self.zoo else MODELS) / file

    @property
    def present(self) -> bool:
        """Whether the model is on this machine."""
        return self.model.is_file()

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What its pictures become."""
        return None if self.preprocess is None else preprocessing(self.preprocess)

    @property
    def calibration(self) -> Any:
        """What ``qpasses.quantize`` takes as data."""
        if self.data:
            return (ZOO if self.zoo else MODELS) / self.data
        return zoo_script().feeds(self.name, "calib", root=str(ZOO))

    @cached_property
    def test_feeds(self) -> Sequence[Mapping[str, Any]]:
        """The samples that are scored, one by one."""
        if not self.test:
            feeds: Sequence[Mapping[str, Any]] = zoo_script().feeds(
                self.name, "test", root=str(ZOO)
            )
            return feeds
        return [feed for _, feed in self._test]

    @cached_property
    def _test(self) -> Samples:
        specs = input_specs(onnx.load(self.model))
        return open_samples(
            (ZOO if self.zoo else MODELS) / self.test, specs, None, self.preprocessing
        )

    def score(self, candidate: Model) -> tuple[float | None, float]:
        """The score of ``candidate``, if there is one, and its SQNR against the float model.

        Of several outputs it is the SQNR of all their elements together.
        """
        if not self.test:
            found = zoo_script().score(candidate, self.name, root=str(ZOO))
            return found["score"], found["sqnr_db"]
        sessions, right, pairs = (Session(self.model), Session(candidate)), 0, []
        for feed, label in zip(self.test_feeds, self._labels(), strict=True):
            real, found = (each.run(None, feed) for each in sessions)
            right += int(found[0].argmax() == label)
            pairs.append([np.concatenate([v.ravel() for v in each]) for each in (real, found)])
        sqnr_db = decibels(*(np.stack(each) for each in zip(*pairs, strict=True)))
        return None if self.metric == "none" else right / len(pairs), sqnr_db

    def _labels(self) -> Sequence[int]:
        if self.metric == "none":
            return [-1] * len(self.test_feeds)
        if self.labels != "folders":
            return list(np.load(MODELS / self.labels))
        classes = sorted({Path(name).parent for name in self._test.names})
        return [classes.index(Path(name).parent) for name in self._test.names]


def decibels(real: NDArray[Any], found: NDArray[Any]) -> float:
    """Signal over noise."""
    real, found = real.astype(np.float64), found.astype(np.float64)
    noise = max(float(np.square(real - found).sum()), 1e-30)
    return float(10 * np.log10(np.square(real).sum() / noise))


def entries() -> list[Entry]:
    """The manifest, in order."""
    content = tomllib.loads((MODELS / "zoo.toml").read_text("utf-8"))
    tolerance = content["tolerance"]
    return [Entry(**{"tolerance": tolerance, **each}) for each in content["model"]]


def classifiers() -> list[Entry]:
    """Those that are integer and count right answers, with all that is measured on them."""
    found = [e for e in entries() if e.expected["verdict"] == "ok" and e.metric == "top-1"]
    return [entry for entry in found if entry.measured]


@cache
def zoo_script() -> Any:
    """The zoo's own score.py as a module: splits and metrics of its models."""
    spec = spec_from_file_location("zoo_score", ZOO / "score.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
