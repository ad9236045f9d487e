"""Declarations are found with their parts, whatever stands inside bodies and initialisers."""

from metalcore.engine.frontend.structure import Declaration, Structure
from metalcore.engine.frontend.tokens import Tokens


def declarations(text: str) -> list[Declaration]:
    return Structure(Tokens(text)).all


def kinds(text: str) -> list[tuple[str, str]]:
    return [(d.kind, d.name) for d in declarations(text)]


def test_functions_classes_and_variables() -> None:
    text = """
    struct A : B<int> { float x; float get() const { return x; } A(float v) : x{v} {} operator float() const; };
    enum class E : int { a, b };
    constant float table[2] = {1, 2};
    template <typename T, int N = 2> T f(T x, vec<T, N> y) { if (x < y) { return x; } return y; }
    typedef struct { int q; } Q;
    """
    assert kinds(text) == [
        ("class", "A"),
        ("variable", "x"),
        ("function", "get"),
        ("function", "A"),
        ("function", "operatorfloat"),
        ("class", "E"),
        ("variable", "table"),
        ("function", "f"),
        ("class", "Q"),
        ("variable", "q"),
    ]


def test_namespaces_give_the_scope() -> None:
    found = declarations('namespace a { namespace b::c { void f(); } extern "C" { void g(); } } void h();')
    assert [(d.name, d.scope) for d in found] == [("f", ("a", "b", "c")), ("g", ("a",)), ("h", ())]


def test_operators_have_their_parameter_lists() -> None:
    tokens = Tokens("struct S { bool operator()(int a) const; S operator<(S b); S& operator[](int i); };")
    found = Structure(tokens).functions
    assert [d.name for d in found] == ["operator()", "operator<", "operator[]"]
    assert [tokens.source(d.open + 1, d.close) for d in found] == ["int a", "S b", "int i"]


def test_explicit_instantiations() -> None:
    tokens = Tokens("template void f<float>(device float* x); template decltype(g<int, 2>) g<int, 2>;")
    first, second = Structure(tokens).all
    assert first.instantiation and tokens.source(first.name_start, first.open) == "f < float >"
    assert second.instantiation and tokens.source(second.name_start, second.end) == "g < int , 2 >"


def test_function_pointers_are_no_parameter_lists() -> None:
    (found,) = declarations("float apply(float (*op)(float), float x) { return op(x); }")
    assert (found.kind, found.name) == ("function", "apply")


def test_static_assertions_are_no_functions() -> None:
    assert kinds('static_assert(sizeof(int) * 2 == 8, ""); int x;') == [("other", ""), ("variable", "x")]


def test_unbalanced_text_ends_the_walk() -> None:
    assert kinds("void f() { ( } int x") != []
    assert kinds("} } ) struct {") != []
