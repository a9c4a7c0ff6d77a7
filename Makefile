# `make help` lists the targets. Everything is installed into .venv, from PyPI alone.
# Another interpreter: make PYTHON=python3.12 VENV=.venv312 test

PYTHON ?= python3
VENV ?= .venv

BIN = $(VENV)/bin
# compiled when first imported: most of it never is
INSTALL = $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check --editable
# its programs alone: what it pins does not go with onnx
TOSA = $(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps tosa-tools \
	|| echo "no tosa-tools for this machine: tests that run TOSA programs skip"
LITERT = $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check ai-edge-litert flatbuffers \
	|| echo "no LiteRT for this machine: tests that run TFLite files skip"
TFLM = $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check tflite-micro \
	|| echo "no TensorFlow Lite Micro for this machine: tests that run its files skip"
IREE = $(BIN)/python -m pip install -qq --disable-pip-version-check \
	iree-base-compiler iree-base-runtime \
	|| echo "no IREE for this machine"
BUILT = pyproject.toml $(wildcard calibration/*.c opsets/native/*.cpp opsets/native/*.h)
HINT = use Python 3.11 or newer: make PYTHON=/path/to/python3.12
DIGITS = models/digits_cnn
DEMO = build/demo

define CHECK_PYTHON
import sys
if sys.version_info < (3, 11):
    sys.exit("error: $(PYTHON) is Python %d.%d: $(HINT)" % sys.version_info[:2])
try:
    import ensurepip, venv
except ImportError:
    sys.exit("error: $(PYTHON) has no venv (Debian: apt-get install python3-venv), or $(HINT)")
endef
export CHECK_PYTHON

.DEFAULT_GOAL = help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test thorough check docs zoo quantized survival published mutate fuzz conformance devices widths streaming methods costs bench detections targets gains tosa tflite ablation clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1	\2/p' Makefile

demo: $(VENV)/package  ## quantize the digits model, verify it, print both reports
	@mkdir -p $(DEMO)
	@$(BIN)/qpasses quantize $(DIGITS)/digits_cnn.onnx --data $(DIGITS)/calibration.npz \
	    -o $(DEMO)/digits_cnn.int8.onnx --json $(DEMO)/quantize.json
	@echo
	@$(BIN)/qpasses verify $(DEMO)/digits_cnn.int8.onnx --against $(DIGITS)/digits_cnn.onnx \
	    --data $(DIGITS)/test.npz --json $(DEMO)/verify.json
	@echo
	@echo "the integer model, its evidence and both reports as JSON: $(DEMO)"

test: $(VENV)/test  ## run all tests
	@$(BIN)/python -m pytest --numprocesses=auto --dist=worksteal

thorough: $(VENV)/test  ## run all tests on eight times as many random examples, and all parameters
	@THOROUGH=1 $(BIN)/python -m pytest --numprocesses=auto --dist=worksteal

check: $(VENV)/dev  ## lint, format, types, layers
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

docs: $(VENV)/test  ## write what documents take from code and figures, fill paragraphs to 95 columns
	@$(BIN)/python -m tests.bench.pictures
	@$(BIN)/python -m tests.bench.op_pages
	@$(BIN)/python -m tests.bench.documents

zoo: $(VENV)/test  ## quantize, verify and score every model of models/zoo.toml
	@$(BIN)/python -m tests.bench.zoo $(ZOO)

quantized: $(VENV)/test  ## integerize published quantized models and quantize_static's: make quantized QUANTIZED=NAME
	@$(BIN)/python -m tests.bench.quantized_models $(QUANTIZED)
	@$(BIN)/python -m tests.bench.documents

survival: $(VENV)/test  ## quantize every case of onnx's backend tests: make survival SURVIVAL=NAME-PART
	@$(BIN)/python -m tests.bench.survival $(SURVIVAL)
	@$(BIN)/python -m tests.bench.documents

published: $(VENV)/test  ## quantize float models as people publish them: make published PUBLISHED=NAME-PART
	@$(BIN)/python -m tests.bench.published $(PUBLISHED)
	@$(BIN)/python -m tests.bench.documents

mutate: $(VENV)/test  ## 1,000 single faults in emitted models, all of which verify must find
	@$(BIN)/python -m tests.bench.mutation $(MUTATE)

N = 300
SEED = 0
fuzz: $(VENV)/test  ## random float graphs, checked on exact integers: make fuzz N=5000 SEED=1
	@$(BIN)/python -m tests.bench.fuzzing --count $(N) --seed $(SEED) $(FUZZ)

COUNT = 40
conformance: $(VENV)/test  ## new vectors by LiteRT's interpreter, targets beside them: make conformance COUNT=400 SEED=1
	@$(BIN)/python -m tests.bench.conformance --count $(COUNT) --seed $(SEED) $(CONFORMANCE)

methods: $(VENV)/test  ## every calibration method on every integer model: docs/calibration.md
	@$(BIN)/python -m tests.bench.methods $(METHODS)

costs: $(VENV)/test  ## measure onnxruntime's kernels, by which bodies of tables are chosen
	@$(BIN)/python -m tests.bench.costs

bench: $(VENV)/bench  ## latency, tables, calibration's time and memory beside onnxruntime's tools; what commands cost
	@$(BIN)/python -m tests.bench.latency $(if $(BENCH),,--json docs/latency.json) $(BENCH)
	@$(BIN)/python -m tests.bench.kernels
	@$(BIN)/python -m tests.bench.tables
	@$(BIN)/python -m tests.bench.calibration $(CALIBRATION)
	@$(BIN)/python -m tests.bench.verifying
	@$(BIN)/python -m tests.bench.quantizing
	@$(BIN)/python -m tests.bench.sizes

detections: $(VENV)/test  ## draw what the zoo's detectors find, float beside integers
	@$(BIN)/python -m tests.bench.detections

targets: $(VENV)/bench  ## one model for every target: SQNR, latency: make targets MODEL=squeezenet
	@$(BIN)/python -m tests.bench.targets $(MODEL)

devices: $(VENV)/test  ## emulated devices whose rule bisect names, planted faults that it locates: docs/bisect.md
	@$(BIN)/python -m tests.bench.bisecting --write $(DEVICES)

widths: $(VENV)/bench  ## what 16 bits gain on each model, at what price: docs/widths.md: make widths WIDTHS=MODEL
	@$(BIN)/python -m tests.bench.widths $(WIDTHS)

streaming: $(VENV)/bench  ## states fed back for 1,000 steps, integers beside float: docs/recurrent.md
	@$(BIN)/python -m tests.bench.streaming

gains: $(VENV)/bench  ## what each step of --accuracy gains on each model: docs/gains.md
	@$(BIN)/python -m tests.bench.gains $(MODEL)

tosa: $(VENV)/test  ## what becomes TOSA, judged by its reference model and IREE: docs/tosa.md
	@$(IREE)
	@$(BIN)/python -m tests.bench.tosa_programs $(MODEL)
	@$(BIN)/python -m tests.bench.documents

tflite: $(VENV)/test  ## what becomes TFLite, judged by LiteRT, TFLite Micro, Vela and TOSA: docs/tflite.md
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[tflite]' \
		ethos-u-vela tosa-converter-for-tflite
	@$(TFLM)
	@$(BIN)/python -m tests.bench.tflite_files $(MODEL)
	@$(BIN)/python -m tests.bench.documents

ablation: $(VENV)/bench  ## forms of Softmax, GELU, LayerNorm and residuals: docs/ablation.md
	@$(BIN)/python -m tests.bench.ablation $(MODEL)

clean:  ## remove .venv, build and every cache
	@rm -rf $(VENV) build *.egg-info calibration/_counting.*.so opsets/native/_kernels.*.so .pytest_cache .mypy_cache .ruff_cache
	@rm -rf .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: what is installed in the environment. A failed step leaves none and is done again.

$(VENV)/created:
	@command -v $(PYTHON) >/dev/null || { echo "error: no $(PYTHON) here: $(HINT)"; exit 1; }
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/package: $(BUILT) $(VENV)/created
	@echo "installing qpasses"
	@$(INSTALL) '.[images]'
	@touch $@

$(VENV)/test: $(BUILT) $(VENV)/created
	@echo "installing qpasses[test]"
	@$(INSTALL) '.[test]'
	@$(TOSA)
	@$(LITERT)
	@$(TFLM)
	@touch $@ $(VENV)/package

$(VENV)/dev: $(BUILT) $(VENV)/created
	@echo "installing qpasses[dev]"
	@$(INSTALL) '.[dev]'
	@$(TOSA)
	@$(LITERT)
	@$(TFLM)
	@touch $@ $(VENV)/package $(VENV)/test

$(VENV)/bench: $(VENV)/test
	@echo "installing what onnxruntime's quantizer needs: sympy"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check sympy
	@touch $@
