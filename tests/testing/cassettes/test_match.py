"""What counts as the same in a replay: ids and redacted values that change with each run, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from hackamore.testing.cassettes.match import Matcher

ONE, TWO, THREE = (f"{digit * 8}-{digit * 4}-4{digit * 3}-8{digit * 3}-{digit * 12}" for digit in "123")
REQUEST, OTHER = "req_1_0a", "req_2_0b"


def matcher(**values: str) -> Matcher:
    return Matcher(values.get)


@pytest.mark.parametrize(
    ("live", "recorded"),
    [
        ({"a": [1, {"b": None}], "c": True}, {"c": True, "a": [1, {"b": None}]}),
        (ONE, TWO),
        (f"see {ONE}, again {ONE}", f"see {TWO}, again {TWO}"),
        ({"id": ONE, "parent": THREE}, {"id": TWO, "parent": ONE}),
        (REQUEST, OTHER),
        ("<hackamore-cwd>", "<hackamore-cwd>"),
        ("<hackamore-secret-1>", "<hackamore-secret-2>"),
        ("<hackamore-secret~1>/x", "<hackamore-secret~7>/x"),
    ],
)
def test_only_ids_and_redacted_values_may_change(live: Any, recorded: Any) -> None:
    assert matcher().differences(live, recorded) == []
    assert matcher().same(live, recorded)


@pytest.mark.parametrize(
    ("live", "recorded", "found"),
    [
        ("a", "b", ['- (all of it): "b"\n+ (all of it): "a"']),
        (1, True, ["- (all of it): true\n+ (all of it): 1"]),
        (1, 1.0, ["- (all of it): 1.0\n+ (all of it): 1"]),
        (0, None, ["- (all of it): null\n+ (all of it): 0"]),
        ("1", 1, ['- (all of it): 1\n+ (all of it): "1"']),
        ([], {}, ["- (all of it): {}\n+ (all of it): []"]),
        ({"a": None}, {}, ["- a: (absent)\n+ a: null"]),
        ({}, {"a": 0}, ["- a: 0\n+ a: (absent)"]),
        ({"x": {"a": [1]}}, {"x": {"a": [1, "é"]}}, ['- x.a[1]: "é"\n+ x.a[1]: (absent)']),
        ({"x": {"a": [1, 2]}}, {"x": {"a": [2]}}, ["- x.a[0]: 2\n+ x.a[0]: 1", "- x.a[1]: (absent)\n+ x.a[1]: 2"]),
        ([ONE, ONE], [TWO, THREE], [f'- [1]: "{THREE}"\n+ [1]: "{ONE}"']),
        ([ONE, TWO], [THREE, THREE], [f'- [1]: "{THREE}"\n+ [1]: "{TWO}"']),
        (ONE, REQUEST, [f'- (all of it): "{REQUEST}"\n+ (all of it): "{ONE}"']),
        (REQUEST, ONE, [f'- (all of it): "{ONE}"\n+ (all of it): "{REQUEST}"']),
        (f"a {ONE}", f"b {TWO}", [f'- (all of it): "b {TWO}"\n+ (all of it): "a {ONE}"']),
        (f"{ONE} a", f"{TWO} b", [f'- (all of it): "{TWO} b"\n+ (all of it): "{ONE} a"']),
        (f"{ONE} {ONE}", ONE, [f'- (all of it): "{ONE}"\n+ (all of it): "{ONE} {ONE}"']),
        (
            "<hackamore-cwd>",
            "<hackamore-home>",
            ['- (all of it): "<hackamore-home>"\n+ (all of it): "<hackamore-cwd>"'],
        ),
        (
            "<hackamore-key-1>",
            "<hackamore-home-1>",
            ['- (all of it): "<hackamore-home-1>"\n+ (all of it): "<hackamore-key-1>"'],
        ),
        (f"{'a' * 8}-1111", f"{'b' * 8}-1111", ['- (all of it): "bbbbbbbb-1111"\n+ (all of it): "aaaaaaaa-1111"']),
    ],
)
def test_all_else_is_a_difference(live: Any, recorded: Any, found: list[str]) -> None:
    one = matcher()
    assert one.differences(live, recorded) == found
    assert not one.same(live, recorded)
    assert one.incoming(TWO.encode(), is_json=True) == TWO.encode()  # nothing was learned


def test_long_texts_are_cut_to_their_difference() -> None:
    long = "x" * 1_000
    [told] = matcher().differences({"a": f"{long}live{long}"}, {"a": f"{long}recorded{long}"})
    assert told == (
        f'- a (from character 950): "{"x" * 50}recorded{"x" * 100}"\n'
        f'+ a (from character 950): "{"x" * 50}live{"x" * 104}"'
    )
    [told] = matcher().differences(long, long + "y")
    assert (
        told == f'- (all of it) (from character 950): "{"x" * 50}y"\n+ (all of it) (from character 950): "{"x" * 50}"'
    )
    [told] = matcher().differences([list(range(100))], [None])
    shown = str(list(range(100)))
    assert told == f"- [0]: null\n+ [0]: {shown[:130]}... ({len(shown)} characters)"


def test_there_is_a_limit_of_differences() -> None:
    assert len(matcher().differences([1] * 50, [2] * 50)) == 12
    assert len(matcher().differences([1] * 50, [2] * 50, limit=3)) == 3


def test_partners_stay_partners() -> None:
    one = matcher()
    assert one.same({"id": ONE}, {"id": TWO})
    assert one.same(f"of {ONE}", f"of {TWO}")
    assert not one.same(ONE, THREE)
    assert not one.same(THREE, TWO)
    assert one.same(THREE, THREE)
    assert one.same(THREE, ONE)


def test_output_gets_the_ids_and_values_of_today() -> None:
    one = matcher(**{"<hackamore-secret-1>": 'a"b\\', "<hackamore-cwd>": "/repo"})
    assert one.same([ONE, "<hackamore-secret-1>", REQUEST], [TWO, "<hackamore-secret-2>", OTHER])
    line = (
        f'{{"of":"{TWO}","request":"{OTHER}","key":"<hackamore-secret-2>","other":"{THREE}","at":"<hackamore-cwd>/x"}}'
    )
    assert one.incoming(line.encode(), is_json=True).decode() == (
        f'{{"of":"{ONE}","request":"{REQUEST}","key":"a\\"b\\\\","other":"{THREE}","at":"/repo/x"}}'
    )
    assert one.incoming(b"<hackamore-secret-2> <hackamore-unknown>", is_json=False) == b'a"b\\ <hackamore-unknown>'
    assert one.incoming(OTHER.encode(), is_json=True) == REQUEST.encode()
    assert one.incoming(b"plain", is_json=True) == b"plain"
