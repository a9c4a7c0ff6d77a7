"""Small float models whose work is in branches and loops, with samples of them."""

import numpy as np

from tests.support.small_models import model, numbers

SAMPLES = 6

WEIGHTS = {
    "w": numbers(4, 4) * np.float32(0.5),
    "v": numbers(4, 4, seed=3) * np.float32(0.5),
    "u": numbers(4, 4, seed=5) * np.float32(0.5),
    "kernel": numbers(4, 4, 3, 3) * np.float32(0.2),
    "zeros": np.zeros(4, np.float32),
    "wide": np.float32(100),
    "rows_x": numbers(1, 16, 4) * np.float32(0.5),
    "rows_h": numbers(1, 16, 4, seed=3) * np.float32(0.5),
    "no_state": np.zeros((1, 1, 4), np.float32),
    "none": np.int64(0),
    "two": np.int64(2),
    "three": np.int64(3),
    "half": np.float32(0.5),
    "first": np.array([0]),
}

BRANCH = """
    [first] h = MatMul (x, w)
    [choice] y = If (c) <
        then_branch = yes () => (float[2, 4] a) { [product] q = MatMul (h, v) a = Relu (q) },
        else_branch = no () => (float[2, 4] b) { [other] b = MatMul (h, u) }
    >"""

LOOP = """
    [first] h = MatMul (x, w)
    [loop] y, z = Loop (three, "", h) <body = turn
        (int64 i, bool on, float[2, 4] s) => (bool off, float[2, 4] t, float[2, 4] o)
        { off = Identity (on) [product] q = MatMul (s, v) t = Tanh (q) [sum] o = Add (q, h) }
    >"""

CASES = {
    "branches": ("float[2, 4] x, bool c", "float[2, 4] y", BRANCH),
    "loop": ("float[2, 4] x", "float[2, 4] y, float[k, 2, 4] z", LOOP),
    "a free batch": (
        "float[N, 4] x",
        "float[N, 4] y, float[k, N, 4] z",
        LOOP.replace("[2, 4]", "[N, 4]"),
    ),
    "scan": (
        "float[5, 4] x",
        "float[4] y, float[5, 4] z",
        """y, z = Scan (zeros, x) <num_scan_inputs = 1, scan_input_directions = [1],
            body = turn (float[4] s, float[4] e) => (float[4] t, float[4] o) {
            q = MatMul (e, w) r = MatMul (s, v) p = Add (q, r) t = Tanh (p) o = Identity (t)
        }>""",
    ),
    "a branch in a branch": (
        "float[2, 4] x, bool c",
        "float[2, 4] y",
        """h = MatMul (x, w) s = ReduceSum <keepdims = 0> (x) p = Greater (s, half)
        y = If (c) <
            then_branch = yes () => (float[2, 4] a) { a = If (p) <
                then_branch = y2 () => (float[2, 4] aa) { aa = MatMul (h, v) },
                else_branch = n2 () => (float[2, 4] ab) { q = MatMul (h, u) ab = Relu (q) }
            > },
            else_branch = no () => (float[2, 4] b) { b = Relu (h) }
        >""",
    ),
    "a branch in a loop": (
        "float[2, 4] x",
        "float[2, 4] y, float[k, 2, 4] z",
        """h = MatMul (x, w)
        y, z = Loop (three, "", h) <body = turn
            (int64 i, bool on, float[2, 4] s) => (bool off, float[2, 4] t, float[2, 4] o) {
            off = Identity (on) q = MatMul (s, v) p = Less (i, two) t = Tanh (q)
            o = If (p) <
                then_branch = y2 () => (float[2, 4] a) { m = MatMul (q, u) a = Tanh (m) },
                else_branch = n2 () => (float[2, 4] b) { b = Relu (q) }
            >
        }>""",
    ),
    "a loop in a branch": (
        "float[2, 4] x, bool c",
        "float[2, 4] y",
        """h = MatMul (x, w)
        y = If (c) <
            then_branch = yes () => (float[2, 4] a) { a = Loop (three, "", h) <body = turn
                (int64 i, bool on, float[2, 4] s) => (bool off, float[2, 4] t)
                { off = Identity (on) q = MatMul (s, v) t = Tanh (q) }> },
            else_branch = no () => (float[2, 4] b) { b = Relu (h) }
        >""",
    ),
    "a loop in a loop": (
        "float[2, 4] x",
        "float[2, 4] y",
        """h = MatMul (x, w)
        y = Loop (three, "", h) <body = turn
            (int64 i, bool on, float[2, 4] s) => (bool off, float[2, 4] t) {
            off = Identity (on) q = MatMul (s, v)
            r = Loop (i, "", q) <body = again
                (int64 i2, bool on2, float[2, 4] s2) => (bool off2, float[2, 4] t2)
                { off2 = Identity (on2) q2 = MatMul (s2, u) t2 = Tanh (q2) }>
            t = Tanh (r)
        }>""",
    ),
    "a count that is given": (
        "float[2, 4] x, int64 n",
        "float[2, 4] y, float[k, 2, 4] z",
        LOOP.replace("(three,", "(n,"),
    ),
    "a state that grows": (
        "float[1, 4] x",
        "float[k, 4] y",
        """h = MatMul (x, w)
        y = Loop (three, "", h) <body = turn
            (int64 i, bool on, float[j, 4] s) => (bool off, float[l, 4] t) {
            off = Identity (on) q = MatMul (s, v) r = Tanh (q) f = Gather (r, first)
            t = Concat <axis = 0> (s, f)
        }>""",
    ),
    "pictures": (
        "float[1, 4, 6, 6] x",
        "float[1, 4, 6, 6] y",
        """h = Conv <pads = [1, 1, 1, 1]> (x, kernel)
        y = Loop (three, "", h) <body = turn
            (int64 i, bool on, float[1, 4, 6, 6] s) => (bool off, float[1, 4, 6, 6] t) {
            off = Identity (on) q = Conv <pads = [1, 1, 1, 1]> (s, kernel) t = Relu (q)
        }>""",
    ),
    "states that change places": (
        "float[2, 4] x",
        "float[2, 4] y, float[2, 4] z",
        """h = MatMul (x, w) k = MatMul (x, u)
        y, z = Loop (three, "", h, k) <body = turn
            (int64 i, bool on, float[2, 4] s, float[2, 4] r)
            => (bool off, float[2, 4] t, float[2, 4] p)
            { off = Identity (on) q = MatMul (s, v) p = Tanh (q) t = Identity (r) }>""",
    ),
    "weights that are carried": (
        "float[2, 4] x",
        "float[2, 4] y, float[4, 4] z",
        """h = MatMul (x, w)
        y, z = Loop (three, "", h, v) <body = turn
            (int64 i, bool on, float[2, 4] s, float[4, 4] m)
            => (bool off, float[2, 4] t, float[4, 4] p)
            { off = Identity (on) q = MatMul (s, m) t = Tanh (q) p = Identity (m) }>""",
    ),
    "what comes from outside": (
        "float[2, 4] x, bool c",
        "float[2, 4] y, float[2, 4] z",
        """h = MatMul (x, w) r = Relu (h)
        y, z = If (c) <
            then_branch = yes () => (float[2, 4] a, float[2, 4] d)
                { a = Identity (h) d = Identity (x) },
            else_branch = no () => (float[2, 4] b, float[2, 4] e)
                { b = MatMul (r, u) e = Identity (h) }
        >""",
    ),
    "an LSTM in a scan": (
        "float[3, 5, 1, 4] x",
        "float[1, 1, 4] y, float[3, 1, 1, 4] z",
        """y, c, z = Scan (no_state, no_state, x) <num_scan_inputs = 1, body = turn
            (float[1, 1, 4] s, float[1, 1, 4] k, float[5, 1, 4] e)
            => (float[1, 1, 4] t, float[1, 1, 4] l, float[1, 1, 4] o) {
            all, t, l = LSTM <hidden_size = 4> (e, rows_x, rows_h, "", "", s, k) o = Tanh (l)
        }>""",
    ),
}
"""By name: inputs, outputs and nodes."""

SIZES = {
    "an LSTM in a scan": (3, 5, 1, 4),
    "scan": (5, 4),
    "a state that grows": (1, 4),
    "pictures": (1, 4, 6, 6),
}


def body_net(name):
    """One of ``CASES``."""
    inputs, outputs, nodes = CASES[name]
    return of_text(inputs, outputs, nodes)


def of_text(inputs, outputs, nodes):
    """The model of ``nodes``, with those of ``WEIGHTS`` that they read."""
    used = {each: value for each, value in WEIGHTS.items() if f"{each}" in nodes}
    return model(f"g ({inputs}) => ({outputs}) {{ {nodes} }}", opset=17, **used)


def body_feeds(name):
    """Samples, in turns of both branches, and of one iteration more each."""
    inputs, *_ = CASES[name]
    return feeds_of(inputs, SIZES.get(name, (2, 4)))


def feeds_of(inputs, sizes=(2, 4)):
    """The same for other inputs: ``c`` and ``n`` say what is computed."""
    feeds = []
    for seed in range(SAMPLES):
        feed = {"x": numbers(*sizes, seed=seed)}
        if "bool c" in inputs:
            feed["c"] = np.array(seed % 2 == 0)
        if "int64 n" in inputs:
            feed["n"] = np.array(seed + 1)
        feeds.append(feed)
    return feeds


def voice_net():
    """Like a detector of voice: an If on the sample rate, whole networks in its branches.

    Each cuts sound in windows, takes their spectrum by a Conv, and hands a state on through an
    LSTM.
    """
    branches = [_voice("a", 8), _voice("b", 4)]
    text = f"""vad (float[1, 64] sound, float[2, 1, 8] state, int64 sr)
        => (float[1, 1] voice, float[2, 1, 8] after) {{
        x = Unsqueeze (sound, one)
        rate = Equal (sr, usual)
        [rates] voice, after = If (rate) <
            then_branch = high () => (float[1, 1] out_a, float[2, 1, 8] next_a)
                {{ {branches[0]} }},
            else_branch = low () => (float[1, 1] out_b, float[2, 1, 8] next_b)
                {{ {branches[1]} }}
        >
    }}"""
    weights = {
        **{"one": np.array([1]), "zero": np.array([0]), "usual": np.array(16000)},
        "halves": np.array([1, 1]),
    }
    for seed, each in enumerate("ab"):
        weights |= {
            f"pads_{each}": np.array([0, 0, 0, 0, 0, 8]),
            f"fourier_{each}": numbers(10, 1, 16, seed=seed),
            f"w_{each}": numbers(12, 10, 3, seed=seed) * np.float32(0.1),
            f"bias_{each}": numbers(12, seed=seed),
            f"v_{each}": numbers(12, 12, 3, seed=seed + 7) * np.float32(0.2),
            f"W_{each}": numbers(1, 32, 12, seed=seed) * np.float32(0.2),
            f"R_{each}": numbers(1, 32, 8, seed=seed) * np.float32(0.2),
            f"B_{each}": numbers(1, 64, seed=seed) * np.float32(0.2),
            f"matrix_{each}": numbers(8, 1, seed=seed),
            f"row_{each}": numbers(1, seed=seed),
        }
    return model(text, opset=18, **weights)


def _voice(each, stride):
    return f"""
        p_{each} = Pad <mode = "reflect"> (x, pads_{each})
        [spectrum] f_{each} = Conv <strides = [{stride}]> (p_{each}, fourier_{each})
        m_{each} = Mul (f_{each}, f_{each})
        [one] c_{each} = Conv <pads = [1, 1]> (m_{each}, w_{each}, bias_{each})
        r_{each} = Relu (c_{each})
        [two] d_{each} = Conv <pads = [1, 1]> (r_{each}, v_{each}, bias_{each})
        q_{each} = Relu (d_{each})
        t_{each} = Transpose <perm = [2, 0, 1]> (q_{each})
        h_{each}, k_{each} = Split <axis = 0> (state, halves)
        [lstm] Y_{each}, H_{each}, C_{each} = LSTM <hidden_size = 8>
            (t_{each}, W_{each}, R_{each}, B_{each}, "", h_{each}, k_{each})
        next_{each} = Concat <axis = 0> (H_{each}, C_{each})
        s_{each} = Squeeze (H_{each}, zero)
        [last] l_{each} = Gemm (s_{each}, matrix_{each}, row_{each})
        out_{each} = Sigmoid (l_{each})"""


def voice_feeds(count=8):
    """Sound of both rates in turns."""
    return [
        {
            "sound": numbers(1, 64, seed=seed),
            "state": numbers(2, 1, 8, seed=seed) * np.float32(0.1),
            "sr": np.array(16000 if seed % 2 else 8000),
        }
        for seed in range(count)
    ]
