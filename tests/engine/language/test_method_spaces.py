"""Methods that are written once for each address space of their object."""

from __future__ import annotations

import pytest

import metalcore
from tests.engine.language.helpers import feature, per_thread

FORMS = [
    feature(
        "language",
        "methods that do different things in each address space",
        (
            "struct F { int a; int get() const thread { return a * 2; } int get() const device { return a * 3; } "
            "int get() const threadgroup { return a * 5; } int get() const constant { return a; } };\n"
            "constant F c = {4};"
        ),
        (
            "F f = {4}; threadgroup F t; t.a = 4; device F* d = (device F*)(out + gid); d->a = 4; "
            "out[gid] = c.get() + 100 * f.get() + 10000 * d->get() + 1000000 * t.get();"
        ),
        20120804,
    ),
    feature(
        "language",
        "operators that do different things in each address space",
        (
            "struct F { int a; operator int() const thread { return a * 2; } "
            "operator int() const device { return a * 3; } void operator=(int x) thread { a = x + 1; } "
            "void operator=(int x) device { a = x + 2; } };"
        ),
        (
            "F f; f = 3; device F* d = (device F*)(out + gid); *d = 3; int a = f, b = *d, c = d->a; "
            "out[gid] = a + 100 * b + 10000 * c;"
        ),
        51508,
    ),
    feature(
        "language",
        "methods of templates and bases, defined outside, called through this, in each address space",
        (
            "struct B { int b; };\ntemplate <typename T> struct F : B { T a, m[2]; T get() const thread { return a; } "
            "T get() const device; T twice() const thread { return get() * 2; } "
            "T twice() const device { T t = b; return get() * 2 + t; } "
            "void set(T a) device { this->a = a; m[1] = a; b = 1; } };\n"
            "template <typename T> T F<T>::get() const device { T m = this->m[1]; return m + a; }\n"
            "struct G { F<int> f; int get() const thread { return f.twice(); } "
            "int get() const device { return f.twice(); } };"
        ),
        (
            "device F<int>* d = (device F<int>*)out; F<int> f; f.a = 7; G g = {f}; d->set(3); "
            "out[gid] = d->twice() + 100 * ((device G*)d)->get() + 10000 * g.get();"
        ),
        141313,
    ),
    feature(
        "language",
        "operator= for device objects that names its members plainly",
        (
            "struct C { int re, im; C(int a) : re(a), im(1) {} "
            "device C& operator=(const thread C& o) device { re = o.re; im = o.im + 1; return *this; } };"
        ),
        "C c(3), e(4); e = c; device C* d = (device C*)out; *d = c; out[gid] = d->re + 10 * d->im + 100 * e.im;",
        123,
    ),
    feature(
        "language",
        "operator= without a result for one address space",
        "struct C { int a; void operator=(const thread C& o) device { a = o.a + 1; } };",
        "C c = {3}, e; e = c; device C* d = (device C*)(out + gid); *d = e; out[gid] = d->a + 10 * e.a;",
        34,
    ),
]


@pytest.mark.parametrize(("before", "body", "value"), FORMS)
def test_form(before: str, body: str, value: int) -> None:
    assert per_thread(f"if (gid == 0) {{ {body} }}", threads=8, before=before)[0] == value


def test_a_static_method_still_has_no_object() -> None:
    before = (
        "struct C { int a; static int f() { return g(); } int g() const device { return a; } "
        "int g() const thread { return -a; } };"
    )
    with pytest.raises(metalcore.errors.CompileError, match="member function without an object argument"):
        per_thread("out[gid] = C::f();", before=before)


@pytest.mark.feature("not yet", "constructors that do different things in different address spaces")
def test_constructors_that_differ_are_refused() -> None:
    before = "struct C { int a; C(int x) thread : a(x) {} C(int y) device : a(2 * y) {} };"
    with pytest.raises(metalcore.errors.UnsupportedFeature, match="constructors of 'C' that do different things"):
        per_thread("C c(1); out[gid] = c.a;", before=before)
