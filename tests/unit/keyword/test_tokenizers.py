"""Tokenizers: the ASCII one against its regular expression, the Unicode one by its promises, languages by examples."""

from __future__ import annotations

import re
import threading
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core.errors import InvalidArgumentError
from agora_core.keyword import (
    AsciiTokenizer,
    SnowballTokenizer,
    Tokenizer,
    UnicodeTokenizer,
    get_tokenizer,
    passage_terms,
    query_terms,
    query_weights,
    suggest_tokenizer,
    tokenizer_names,
)
from agora_core.keyword.counting import Vocabulary, count_texts
from agora_core.keyword.registry import LANGUAGES, resolve_tokenizer
from agora_core.keyword.stopwords import STOP_WORDS, stop_words

ODD = "İıKKÅßſﬀΣς_-.'’“”\u00a0\u00ad\u0301\ud800ǅⅠ①²½٣०"
any_text = st.text() | st.text(st.sampled_from(f"aZ09 {ODD}"))
ascii_text = st.text(st.characters(max_codepoint=127))
tokenize = UnicodeTokenizer()


@given(any_text)
def test_ascii_is_its_regular_expression(text: str) -> None:
    assert AsciiTokenizer()(text) == re.findall("[a-z0-9]+", text.lower())


@given(ascii_text.map(str.lower))
def test_unicode_is_ascii_where_no_word_has_parts(text: str) -> None:
    plain = re.sub(r"_|(?<=[a-z])(?=[0-9])|(?<=[0-9])(?=[a-z])", " ", text)
    assert tokenize(plain) == tokenize.query(plain) == AsciiTokenizer()(plain)


ascii_words = st.lists(st.text("abAB01_", min_size=1, max_size=8), max_size=5).map(" ".join)


def parts_by_pattern(text: str) -> list[str]:
    """Take identifiers apart as the rule reads, by one pattern."""
    terms: list[str] = []
    for word in re.findall(r"[A-Za-z0-9_]+", text):
        whole = word.strip("_")
        parts = [p for p in re.split(BOUNDARY, whole) if p]
        terms += [whole.lower()] if len(parts) == 1 else [whole.lower(), *map(str.lower, parts)] if parts else []
    return terms


BOUNDARY = r"_+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])"


@given(ascii_words, st.sampled_from(["", " é", " 東"]))
def test_identifiers_are_indexed_whole_and_by_their_parts(text: str, other: str) -> None:
    # What stands beside them decides which of three ways is taken; all give the same.
    beside = tokenize(other)
    assert tokenize(text + other) == tokenize.query(text + other) == [*parts_by_pattern(text), *beside]


@given(any_text)
def test_terms_hold_only_words_and_their_marks(text: str) -> None:
    for term in tokenize(text):
        assert term
        assert unicodedata.category(term[0])[0] in "LN"
        # An underscore stands within an identifier that is kept whole.
        assert all(unicodedata.category(character)[0] in "LNM" for character in term.replace("_", "a"))
        assert term == term.strip("_")
        assert term == unicodedata.normalize("NFC", term)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_canonically_equivalent_texts_give_the_same_terms(text: str) -> None:
    for form in ("NFC", "NFD"):
        assert tokenize(unicodedata.normalize(form, text)) == tokenize(text)


@given(st.text(st.sampled_from("漢字かなカナกข한국 aé1A_")))
def test_a_query_asks_only_for_terms_of_the_same_passage(text: str) -> None:
    assert set(tokenize.query(text)) <= set(tokenize(text))


@given(st.text(st.sampled_from("漢字語東京都한국어"), min_size=2))
def test_every_pair_of_a_run_is_found_in_it(text: str) -> None:
    terms = tokenize(text)
    for place in range(len(text) - 1):
        assert tokenize.query(text[place : place + 2]) == [text[place : place + 2]]
        assert text[place : place + 2] in terms
    assert set(text) <= set(terms)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("naïve CAFÉ", ["naïve", "café"]),
        ("don’t — “stop”…", ["don", "t", "stop"]),
        ("snake_case 3.14", ["snake_case", "snake", "case", "3", "14"]),
        ("HTTPServer2", ["httpserver2", "http", "server", "2"]),
        ("getHTTPResponse __init__ _", ["gethttpresponse", "get", "http", "response", "init"]),
        ("ÉcoleNormale Über２", ["écolenormale", "école", "normale", "über2", "über", "2"]),
        ("हिन्दी२", ["हिन्दी२", "हिन्दी", "२"]),
        ("A\u0300\u0323a x\u0301Y", ["ạ̀a", "x́y", "x́", "y"]),
        ("Hello WORLD I", ["hello", "world", "i"]),
        ("co\u00adoperate", ["cooperate"]),
        ("ﬁnance Ⅻ ① １２", ["finance", "xii", "1", "12"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("ไทย", ["ไท", "ทย"]),
        ("Tiếng Việt", ["tiếng", "việt"]),
        ("ΣΊΣΥΦΟΣ", ["σίσυφοσ"]),
        ("東京都", ["東京", "京都", "東", "京", "都"]),
        ("iPhone用の", ["iphone", "i", "phone", "用の", "用"]),
        ("ｶﾀｶﾅ", ["カタ", "タカ", "カナ"]),
        ("한국어 검색은", ["한국", "국어", "한", "국", "어", "검색", "색은", "검", "색", "은"]),
        ("猫", ["猫"]),
        ("\u0301a\u0301", ["á"]),
        ("good 👍🏽 café ❤️", ["good", "café"]),
        ("𝐁old 𝟙", ["bold", "1"]),
        ("𠮷野家 café", ["𠮷野", "野家", "𠮷", "野", "家", "café"]),
        ("葛\U000e0100城", ["葛城", "葛", "城"]),
        ("𑀓𑁆𑀓 क्क", ["𑀓𑁆𑀓", "क्क"]),
        ("", []),
        ("?!", []),
    ],
)
def test_unicode_terms(text: str, terms: list[str]) -> None:
    assert tokenize(text) == terms


def test_a_query_has_single_characters_only_where_one_stands_alone() -> None:
    assert tokenize.query("東京都 猫") == ["東京", "京都", "猫"]


def test_query_terms_are_distinct_and_in_order() -> None:
    assert query_terms(str.split, "b a b c a") == ["b", "a", "c"]
    assert query_terms(tokenize, "東京東京") == ["東京", "京東"]


def test_a_term_weighs_the_root_of_its_repetitions_in_the_query() -> None:
    assert tokenize.query("to be or not to be") == ["to", "be", "or", "not", "to", "be"]
    assert query_weights(tokenize, "b a B c b a") == {"b": 3**0.5, "a": 2**0.5, "c": 1.0}
    assert query_weights(str.split, "b a b") == {"b": 2**0.5, "a": 1.0}
    # The reference counts each once.
    assert query_weights(AsciiTokenizer(), "b a b") == {"b": 1.0, "a": 1.0}


def test_english_stems_and_stop_words() -> None:
    english = get_tokenizer("english")
    assert isinstance(english, SnowballTokenizer)
    assert english("The runners were running") == ["the", "runner", "were", "run"]
    assert english.query("What are the runners doing?") == ["runner"]
    # The length that counts is that of the other words.
    assert passage_terms(english, "The runners were running") == (["the", "runner", "were", "run"], 2)


def test_a_query_of_nothing_but_stop_words_keeps_them() -> None:
    english = get_tokenizer("english")
    assert query_terms(english, "To be, or not to be") == ["to", "be", "or", "not"]
    assert passage_terms(english, "The Who") == (["the", "who"], 2)
    assert query_terms(english, "?!") == []


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("german", "Die Häuser", "das Hauses"),
        ("russian", "быстрые лисицы", "быстрая лисица"),
        ("french", "les chevaux continuaient", "le cheval continuait"),
        ("spanish", "las bibliotecas", "la biblioteca"),
        ("arabic", "الكتب", "كتب"),
        ("turkish", "evler", "ev"),
    ],
)
def test_forms_of_a_word_meet_in_its_stem(language: str, one: str, other: str) -> None:
    tokenizer = get_tokenizer(language)
    assert query_terms(tokenizer, one)[0] == query_terms(tokenizer, other)[0]


def test_stems_do_not_depend_on_what_else_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stemmer:
        """What `snowballstemmer.stemmer()` would hand out where PyStemmer is installed."""

        def __init__(self, language: str) -> None:
            raise AssertionError(language)

    monkeypatch.setattr("snowballstemmer.stemmer", Stemmer)
    assert SnowballTokenizer("estonian")("raamatute") == ["raama"]
    assert SnowballTokenizer("dutch_porter")("huizen") == ["huiz"]
    with pytest.raises(KeyError, match="no Snowball algorithm 'klingon'"):
        SnowballTokenizer("klingon")


@pytest.mark.parametrize("name", tokenizer_names())
def test_every_name_gives_a_tokenizer_that_knows_its_name(name: str) -> None:
    tokenizer = get_tokenizer(name)
    assert isinstance(tokenizer, Tokenizer)
    assert (tokenizer.name, dict(tokenizer.config)) == (name, {})
    assert get_tokenizer(name) is tokenizer
    assert tokenizer("") == []
    assert all(type(term) is str for term in tokenizer("Words, слова 言葉 शब्द"))


def test_stop_words_are_as_the_tokenizer_cuts_them() -> None:
    for language in STOP_WORDS:
        assert language in LANGUAGES
        for word in stop_words(language):
            assert tokenize(word) == [word]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"tokenizer 'klingon' is not known; use one of arabic, .*, or pass"):
        get_tokenizer("klingon")
    with pytest.raises(
        InvalidArgumentError, match="tokenizer must be a name or a callable from text to terms, got int"
    ):
        resolve_tokenizer(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "english",
            "The quick brown fox jumps over the lazy dog, and it was not the first time that they had seen this.",
        ),
        (
            "german",
            "Der schnelle Fuchs springt über den faulen Hund, und das war nicht das erste Mal, dass wir ihn sahen.",
        ),
        (
            "french",
            "Le renard saute par-dessus le chien, et ce n'est pas la première fois que nous l'avons vu dans la rue.",
        ),
        (
            "spanish",
            "El zorro salta sobre el perro, y no fue la primera vez que lo habían visto en la calle de los pinos.",
        ),
        (
            "russian",
            "Быстрая лисица прыгает через собаку, и это был не первый раз, когда мы её здесь увидели, как и они.",
        ),
        (
            "dutch",
            "De snelle vos springt over de luie hond, en het was niet de eerste keer dat wij hem hier hadden gezien.",
        ),
        ("hindi", "यह एक वाक्य है और इसमें हिन्दी के कुछ शब्द हैं जो बहुत काम के हैं और यह भी एक बात है कि वह घर में था"),
        (
            "unicode",
            "東京都は日本の首都である。人口は世界でも多いほうで、鉄道の網が広がっている。多くの会社がここにある。",
        ),
        ("unicode", "xq zk vv wq pl mn gh jk ty op zx cv bn qw er df gh jk ui op as df gh jk"),
        ("unicode", "the"),
        ("unicode", ""),
    ],
)
def test_suggests_the_language_of_a_sample(name: str, text: str) -> None:
    assert suggest_tokenizer([text]) == name


def test_a_sample_is_several_texts() -> None:
    with pytest.raises(InvalidArgumentError, match="sample_texts must be several texts, got one str"):
        suggest_tokenizer("the text")


def test_one_stemmer_serves_many_threads() -> None:
    words = [f"running{'s' * (n % 3)} nation{n} relational{n % 7}" for n in range(300)]
    expected = [SnowballTokenizer("english")(text) for text in words]
    shared = SnowballTokenizer("english")
    answers: list[list[list[str]]] = []

    def stem() -> None:
        answers.append([shared(text) for text in words])

    threads = [threading.Thread(target=stem) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 4


@given(st.lists(any_text | st.text(st.sampled_from("aB1_ 東京한국ไท the"), max_size=12), min_size=2, max_size=5))
def test_texts_are_counted_by_words_as_by_terms(texts: list[str]) -> None:
    """The quick way, each distinct word taken apart once, against the plain one."""
    for name in ("ascii", "unicode", "english"):
        tokenizer = get_tokenizer(name)
        quick, plain = Vocabulary(), Vocabulary()
        found = count_texts(texts, tokenizer, quick)
        alone = [count_texts([text], tokenizer, plain) for text in texts]
        for place, one in enumerate(alone):
            here = found.texts == place
            named = {quick.words[t]: f for t, f in zip(found.terms[here], found.frequencies[here], strict=True)}
            assert named == {plain.words[t]: f for t, f in zip(one.terms, one.frequencies, strict=True)}
            assert found.lengths[place] == one.lengths[0] == passage_terms(tokenizer, texts[place])[1]
