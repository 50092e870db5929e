"""Code that nobody writes by hand: what the analysis must take without raising, and without taking long."""

from __future__ import annotations

from tests.analysis.scanning import training

__all__ = ["GUARDS", "HOSTILE"]

_CE = "loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)\n"
_OVER = _CE + "(loss / k).backward()"
_DEEP_IFS = "".join("    " + " " * k + f"if a{k}:\n" for k in range(80)) + "    " + " " * 80


def _doubled(line: str, after: str = "loss.backward(x)", times: int = 60) -> str:
    """Statements each of which doubles what the one before made."""
    return training(_CE + f"{line}\n" * times + f"if n:\n    x = 3\n{after}")


def _chain(arms: int, arm: str) -> str:
    return "if i == 0:\n    pass\n" + "".join(f"elif i == {k}:\n    {arm}\n" for k in range(1, arms))


HOSTILE = {
    # numbers
    "integer beyond floats": training(f"k = {10**400}\n{_OVER}"),
    "integer beyond decimals": training(f"k = 0x{'f' * 6000}\n{_OVER}"),
    "ignored label beyond decimals": training(f"(F.cross_entropy(x, y, ignore_index=0x{'f' * 6000}) / n).backward()"),
    "infinite quotient": training(f"k = 1e400 // 2\n{_OVER}"),
    "overflowing floor": training(f"k = 1e300 // 1e-10\n{_OVER}"),
    "overflowing power": training(f"k = 999999 ** 63\n{_OVER}"),
    "underflowing power": training(f"k = 0.00001 ** -63\n{_OVER}"),
    "root of a negative": training(f"k = (-8) ** 0.5\n{_OVER}"),
    "nothing to a negative": training(f"k = 0 ** -1\n{_OVER}"),
    "not a number": training(f"k = 1e400 - 1e400\n{_OVER}"),
    "by nothing": training(_CE + "(loss / 0).backward()"),
    "rounding to nothing": training(_CE + "(loss / 5e-324).backward()"),
    # depth
    "a thousand terms": training("loss = " + " + ".join(f"l{k}" for k in range(1000)) + "\n(loss / n).backward()"),
    "a thousand factors": training("loss = " + " * ".join(f"l{k}" for k in range(1000)) + "\n(loss / n).backward()"),
    "a thousand of one": "A = " + " + ".join(["1"] * 900) + "\n" + training("(x.mean() / A).backward()"),
    "chained calls": training("loss = model(x)" + ".view(1)" * 300 + ".mean()\n(loss / n).backward()"),
    "chained attributes": training("loss = model" + ".a" * 900 + "\n(loss / n).backward()"),
    "nested calls": training("loss = " + "f(" * 90 + "x" + ")" * 90 + "\n(loss / n).backward()"),
    "nested lambdas": training("f = " + "lambda loss: " * 90 + "loss\nloss = f(x)\nloss.backward()"),
    "nested lists": training("loss = " + "[" * 90 + "x" + "]" * 90 + "\nloss.backward()"),
    "nested ifs": f"def f(loss, optimizer):\n{_DEEP_IFS}loss.backward()\n    optimizer.step()\n",
    "nested functions": "".join(" " * k + f"def f{k}(loss):\n" for k in range(60)) + " " * 60 + "loss.backward()\n",
    "nested ifs in nested calls": "".join(f"def f{k}(loss):\n{_DEEP_IFS}f{k + 1}(loss)\n" for k in range(12))
    + "def f12(loss):\n    loss.backward()\n",
    "long decorator": "@a" + ".b" * 900 + "\ndef f(loss):\n    loss.backward()\n",
    "long chain of arms": training(_CE + _chain(1200, "pass") + "loss.backward()"),
    "arms that divide": training(_CE + _chain(200, "loss = loss / n") + "loss.backward()"),
    "arms of a module": "if a == 0:\n    pass\n"
    + "".join(f"elif a == {k}:\n    pass\n" for k in range(1, 1200))
    + "def f(loss):\n    loss.backward()\n",
    "long argument of Accelerator": (
        f"a = Accelerator(gradient_accumulation_steps={'+'.join(['k'] * 900)})\ndef f(loss):\n    a.backward(loss)\n"
    ),
    # size
    "doubled tuple": _doubled("x = (x, x)"),
    "doubled list": _doubled("x = [x, x]"),
    "doubled dict": _doubled("x = {'a': x, 'b': x}"),
    "doubled call": _doubled("x = {'a': g(x, x)}"),
    "doubled test": _doubled("x = x and (x or y)"),
    "doubled comparison": _doubled("x = x < x"),
    "doubled remainder": _doubled("x = x % x"),
    "doubled product": _doubled("x = x * x"),
    "doubled power": _doubled("x = x ** x"),
    "doubled quotient": _doubled("x = x / (x + 2)"),
    "doubled loss": _doubled("loss = loss / (loss + y)", "loss.backward()"),
    "doubled mean": _doubled("x = torch.stack([x, x]).mean() + y", "(x / n).backward()"),
    "doubled append": training("ls = []\n" + "ls.append([ls, ls])\n" * 60 + "sum(ls).backward()"),
    "doubled default": training(_CE + "f = lambda a, b=(1, 2): (a, a, b)\n" + "x = f(x)\n" * 60 + "loss.backward(x)"),
    "doubled attribute": "class T:\n    def fit(self, loss):\n        self.x = (loss, loss)\n"
    + "        self.x = (self.x, self.x)\n" * 60
    + "        if loss:\n            self.x = 3\n        loss.backward()\n",
    "doubled constants": "a0 = (b, b)\n"
    + "".join(f"a{k} = (a{k - 1}, a{k - 1})\n" for k in range(1, 60))
    + "def f(loss):\n    x = a59\n    if loss:\n        x = 3\n    loss.backward(x)\n",
    # circles
    "functions that call each other": (
        "def a(loss):\n    b(loss)\n    loss.backward()\ndef b(loss):\n    a(loss)\n    loss.backward()\n"
    ),
    "tree of calls": "".join(
        f"def f{k}(loss):\n    f{k + 1}(loss)\n    f{k + 1}(loss)\n    return f{k + 1}(loss)\n" for k in range(20)
    )
    + "def f20(loss):\n    loss.backward()\n",
    "class of itself": (
        "class A(A):\n    def forward(self, x):\n        return super().forward(x)\n"
        "    def fit(self, loss):\n        self.forward(loss).backward()\n"
    ),
    "classes of each other": (
        "class A(B):\n    pass\nclass B(A):\n"
        "    def fit(self, loss):\n        super().fit(loss)\n        loss.backward()\n"
    ),
    "constants of each other": "a = b\nb = a\ndef f(loss):\n    (loss / a).backward()\n",
    "property of itself": (
        "class A:\n    @property\n    def loss(self):\n        return self.loss\n"
        "    def fit(self):\n        self.loss.backward()\n"
    ),
    "generator of itself": (
        "def g():\n    x = yield from g()\n    yield x\ndef f(loss):\n    for x in g():\n        loss.backward(x)\n"
    ),
    "imports itself": (
        "import train\nfrom train import f\nfrom train import *\ndef f(loss):\n    train.f(loss).backward()\n"
    ),
    # grammar
    "match": (
        "def f(loss):\n    match loss:\n        case [a, *b]:\n            a.backward()\n"
        "        case {'x': c, **d}:\n            c.backward()\n        case _:\n            loss.backward()\n"
    ),
    "walrus": "def f(loss):\n    (y := loss / 3).backward()\n    [z := k for k in loss]\n",
    "stars": "def f(*loss, **kw):\n    f(*loss, **kw)\n    a, *b = loss\n    [*c] = b\n    loss[0].backward(**kw)\n",
    "asynchronous": (
        "async def f(loss):\n    async for x in loss:\n        async with x as y:\n            (await y).backward()\n"
    ),
    "odd targets": (
        "def f(loss):\n    a[0], b.c, (d, [e, *g]) = loss\n    a[0] /= b.c\n    del d\n    global h\n    h = loss\n"
        "    a[1:2, ...] += 1\n    x: int\n    y: int = 2\n    loss.backward()\n"
    ),
    "formatted": "def f(loss, n):\n    print(f'{loss.item():{n}.{n!r}}', f'{loss=}')\n    loss.backward()\n",
    "everything after return": "def f(loss):\n    return\n    loss.backward()\n",
    "loops without a body": "def f(loss):\n    for _ in []: ...\n    while 0: ...\n    else: loss.backward()\n",
    "empty things": (
        "def f(loss):\n    a = ()\n    b = [*a] * 3\n    c = sum([])\n    d = {} | {**a}\n    loss.backward()\n"
    ),
    "many names": training(_CE + "\n".join(f"a{k} = a{k - 1} + {k}" for k in range(1, 1000)) + "\nloss.backward()"),
}

_GUARDED = """\
def f(model, loader, optimizer, n):
    for i, x in enumerate(loader):
        (model(x, labels=x).loss / n).backward()
        if {test}:
            optimizer.step()
            optimizer.zero_grad()
"""

#: Conditions of a step whose numbers make no sense.
GUARDS = {
    test: _GUARDED.format(test=test)
    for test in (
        "i % 0 == 0",
        "i % 0.5 == 0",
        "(i + 1) % -0.2 == 0",
        "(i + 1) % -4 == 0",
        "i % 4 == 1e400",
        "i % 1e400 == 0",
        "i % n == n - 1e400",
        "i % n == n - n - n",
        "i % n == n * n",
        "i % (n % 4) == 0",
        "i % 4 % 2 == 1",
        "i % None == 'x'",
        "i % n in (0, 1)",
        "0 <= i % n <= 1",
        "not not not i % n",
        "i == i == i",
    )
}
