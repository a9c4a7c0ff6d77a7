"""Sessions that tests of a module ask for again: the same model, loaded in the same way.

A test quantizes, verifies and runs one model, which loads each of a few graphs several times;
the next one often begins with the same float model.
"""

from collections import OrderedDict
from functools import wraps

import onnx

from calibration import held_weights, large_weights
from calibration.held_weights import are_many, names_held, weight_bytes
from calibration.large_weights import alone
from calibration.session import Session
from calibration.silent import ort

SMALL = 1 << 20
"""Of models with fewer bytes of weights sessions are remembered."""

KEPT = 64
"""So many at a time: those that were asked for last."""

_made = OrderedDict()


def remember():
    """From now on a session that was made is not made again, until ``forget``."""
    make = Session.__init__

    @wraps(make)
    def made(self, model, **options):
        key = _key(model, options)
        if known := _made.pop(key, None):
            vars(self).update(known)
        else:
            make(self, model, **options)
        if key is not None:
            _made[key] = dict(vars(self))
            if len(_made) > KEPT:
                _made.popitem(last=False)

    Session.__init__ = made


def forget():
    """Let all sessions go."""
    _made.clear()


def forget_behind(item, next_item):
    """Let them go where the test that was run is the last of its module, here."""
    if next_item is None or next_item.path != item.path:
        forget()


def _key(model, options):
    """What decides what a session is; None for one that is not remembered."""
    if "optimized" in options or not isinstance(model, onnx.ModelProto):
        return None
    if weight_bytes(model) >= SMALL or are_many(model) or names_held(model):
        return None
    outputs = [alone(value) for value in options.get("outputs", ())]
    config = sorted(options.get("config", {}).items())
    others = sorted((k, v) for k, v in options.items() if k not in ("config", "outputs"))
    how = ort.InferenceSession, held_weights.MANY, held_weights.LARGE, large_weights._MUCH
    return alone(model), how, *map(tuple, (outputs, config, others))
