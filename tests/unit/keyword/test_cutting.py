"""Words told apart by numpy are those that Python tells apart, whatever their length and number."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agora_core.keyword.cutting import cut_texts

# Around one and two readings of eight bytes, and words that differ in their last byte alone.
lengths = st.sampled_from([1, 2, 7, 8, 9, 15, 16, 17, 24, 40])
words = st.one_of(
    st.text("ab", min_size=1, max_size=20),
    st.builds(lambda length, last: "x" * (length - 1) + last, lengths, st.sampled_from("xyz_9")),
)
blanks = st.text(" ", max_size=2)
texts = st.lists(
    st.builds(lambda before, some, after: f"{before}{' '.join(some)}{after}", blanks, st.lists(words), blanks)
)


def counts(given_texts: list[str]) -> Counter[tuple[int, str]]:
    return Counter((place, word) for place, text in enumerate(given_texts) for word in text.split())


def told(given_texts: list[str]) -> Counter[tuple[int, str]]:
    cut = cut_texts([text.encode() for text in given_texts])
    assert len(cut.numbers) == len(cut.owners)
    return Counter(
        (owner, cut.words[number]) for owner, number in zip(cut.owners.tolist(), cut.numbers.tolist(), strict=True)
    )


@given(texts)
def test_every_word_is_told(some: list[str]) -> None:
    assert told(some) == counts(some)


def test_many_words_that_share_slots_are_told_apart() -> None:
    """The kind: tokens whose words fall into one slot of the table taken for the same word."""
    some = [
        " ".join(f"w{number % 7919}" for number in range(place, place + 3_000)) for place in range(0, 30_000, 3_000)
    ]
    assert told(some) == counts(some)
    cut = cut_texts([text.encode() for text in some])
    assert len(cut.words) == len(set(cut.words)) == 7_919
