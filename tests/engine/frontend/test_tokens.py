"""The tokenizer keeps every character and knows which line each token stands on."""

from metalcore.engine.frontend.tokens import Tokens, literal


def test_joining_gives_the_text_back() -> None:
    text = 'a<<=b>>1; "x\\"y" R"(raw # )" \'c\' 1.5e-3f 0x1p-2 vec<vec<int, 2>> ->* ... \n\tz'
    assert Tokens(text).join() == text + "\n"


def test_closing_angles_are_single_tokens() -> None:
    assert Tokens("a<b<c>> d").text == ["a", "<", "b", "<", "c", ">", ">", "d"]


def test_brackets_find_their_partners() -> None:
    tokens = Tokens("f(a[1], {2})")
    assert tokens.match[1] == len(tokens) - 1
    assert tokens.match[3] == 5


def test_split_ignores_commas_inside_brackets() -> None:
    tokens = Tokens("a, vec<int, 2> b, f(c, d), {e, g}")
    assert [tokens.source(*part) for part in tokens.split(0, len(tokens))] == [
        "a",
        "vec < int , 2 > b",
        "f ( c , d )",
        "{ e , g }",
    ]


def test_where_follows_line_markers() -> None:
    tokens = Tokens('# 1 "a.metal"\none\n\ntwo\n# 7 "dir/b \\"q\\".h" 1\nthree\n# 4 "a.metal" 2\nfour\nfive')
    places = {word: tokens.where(i) for i, word in enumerate(tokens.text) if word.isalpha()}
    assert places == {
        "one": ("a.metal", 1),
        "two": ("a.metal", 3),
        "three": ('dir/b "q".h', 7),
        "four": ("a.metal", 4),
        "five": ("a.metal", 5),
    }


def test_removed_tokens_keep_their_line_breaks() -> None:
    tokens = Tokens("a\nb c\n# 5\nd e")
    tokens.blank(1, 5)
    assert tokens.join() == "a\n \n# 5\n e\n"


def test_inserted_text_stands_before_the_token() -> None:
    tokens = Tokens("a b")
    tokens.insert(1, "x ")
    tokens.insert(1, "y ")
    assert tokens.join() == "a x y b\n"


def test_adjacent_literals_are_one() -> None:
    assert literal(('"a_"', '"b\\"c"')) == 'a_b"c'


def test_numbers_end_where_clang_ends_them() -> None:
    assert Tokens("1'é' 1_p+x 0x1p+2 1e+3 1'0$").text == ["1", "'é'", "1_p", "+", "x", "0x1p+2", "1e+3", "1'0", "$"]


def test_an_edit_makes_no_token_of_its_neighbours() -> None:
    for text, edit, joined in (("4/kernel*2", "", "4/ *2"), ("a-x-b", "", "a- -b"), ('"C"x y', "z ", '"C" z  y')):
        tokens = Tokens(text)
        i = next(i for i, word in enumerate(tokens.text) if word in ("kernel", "x"))
        tokens.text[i] = edit
        assert tokens.join() == joined + "\n"
