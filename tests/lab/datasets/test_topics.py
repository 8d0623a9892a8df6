"""Topics with arguments: every form of file, every kind of bad input, and the draw of as many for each perspective."""

import json
import random
from pathlib import Path

import pytest

from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical_lab.datasets.topics import Topic, draw_arguments, has_topics, make_topic, read_topics, topic_groups

CARS = {"pro": ["Cars pollute.", "Streets get safer."], "con": ["Shops lose customers.", "Buses are full."]}


def write(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return str(path)


def perspectrum(folder: Path) -> str:
    texts = {1: "Cars  pollute.: ", 2: "Vehicles cause pollution.", 3: "Shops lose money.", 4: "cars pollute"}
    entries = [([1, 2], "SUPPORT"), ([3], "UNDERMINE"), ([4], "SUPPORT")]
    claim = {"cId": 7, "text": "Ban cars", "perspectives": [{"pids": p, "stance_label_3": s} for p, s in entries]}
    empty = {"cId": 8, "text": "Ban dogs", "perspectives": []}
    write(folder / "perspectrum_with_answers_v1.0.json", [claim, empty])
    write(folder / "perspective_pool_v1.0.json", [{"pId": i, "text": text} for i, text in texts.items()])
    write(folder / "dataset_split_v1.0.json", {"7": "test", "8": "test"})
    return f"perspectrum:{folder}"


def test_forms_agree(tmp_path: Path) -> None:
    listed = [{"topic": "Ban cars?", "perspectives": CARS}]
    table = "topic,perspective,argument\n" + "".join(f"Ban cars?,{p},{a}\n" for p, texts in CARS.items() for a in texts)
    files = [
        write(tmp_path / "a.json", listed),
        write(tmp_path / "b.jsonl", json.dumps(listed[0])),
        write(tmp_path / "c.csv", table),
    ]
    lines = [json.dumps({"question": "Ban cars?", "arguments": {k: v[:n] for k, v in CARS.items()}}) for n in (1, 2)]
    files.append("procon:" + write(tmp_path / "d.jsonl", "\n".join(lines)))
    assert all(map(has_topics, files))
    expected = make_topic("Ban cars?", "Ban cars?", {name: [[text] for text in texts] for name, texts in CARS.items()})
    assert [list(read_topics(file)) for file in files] == [[expected]] * 4


def test_three_perspectives_and_paraphrases(tmp_path: Path) -> None:
    item = {"text": "It is fast.", "paraphrases": ["It runs quickly.", "it is FAST"]}
    perspectives = {"owners": [item], "critics": ["It is loud."], "engineers": ["It is new."]}
    file = write(tmp_path / "t.json", [{"id": 3, "topic": "The train", "perspectives": perspectives}])
    (topic,) = read_topics(file)
    assert (topic.id, list(topic.perspectives)) == ("3", ["owners", "critics", "engineers"])
    assert topic.arguments[0].wordings == ("It is fast.", "It runs quickly.")


def test_perspectrum_and_its_doubles(tmp_path: Path) -> None:
    bad: list[DataError] = []
    (topic,) = read_topics(perspectrum(tmp_path), "test", on_bad=bad.append)
    assert [(a.id, a.wordings) for a in topic.arguments] == [
        ("support-1", ("Cars pollute.:", "Vehicles cause pollution.")),
        ("undermine-1", ("Shops lose money.",)),
    ]
    assert "there twice" in str(bad[0])
    assert len(list(read_topics(perspectrum(tmp_path)))) == 1  # a known defect of the set is no error


def test_argkp(tmp_path: Path) -> None:
    rows = "key_point_id,key_point,topic,stance\nk1,Cars pollute,Ban cars,1\nk2,Shops lose,Ban cars,-1\n"
    write(tmp_path / "key_points_dev.csv", rows)
    (topic,) = read_topics(f"argkp:{tmp_path}", "dev")
    assert {name: [a.text for a in group] for name, group in topic.perspectives.items()} == {
        "pro": ["Cars pollute"],
        "con": ["Shops lose"],
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"topic": "T", "perspectives": {"pro": []}}], "perspective 'pro' has no argument"),
        ([{"topic": "T", "perspectives": {}}], "'T' has no argument"),
        ([{"topic": "T", "perspectives": {"pro": ["A b."], "con": ["a  B"]}}], "'a B' is there twice (pro, con)"),
        ([{"topic": "T", "perspectives": {"pro": ["!"]}}], "argument 1 is empty"),
        ([{"topic": "T", "perspectives": {"pro": [3]}}], "'pro' holds '3', not an argument"),
        ([{"topic": "T", "perspectives": {"introduction": ["A"]}}], "the name cannot be used"),
        ([{"topic": "T", "perspectives": {"pro": ["A"]}}] * 2, "the topic 'T' is there twice"),
        ([{"perspectives": {"pro": ["A"]}}], "no field 'topic'"),
        ("topic,perspective,argument\nT,pro,A\nT,con,a.\n", "the argument 'a.' is on line 2 already"),
        ("topic,argument\nT,A\n", "no field 'perspective'"),
        ("topic,perspective,argument\nT,pro, \n", "'argument' is empty"),
    ],
)
def test_bad_rows_are_named_or_counted(tmp_path: Path, content: object, message: str) -> None:
    file = write(tmp_path / ("t.csv" if isinstance(content, str) else "t.json"), content)
    with pytest.raises(DataError) as raised:
        list(read_topics(file))
    assert message in str(raised.value)
    assert raised.value.line is not None
    bad: list[DataError] = []
    list(read_topics(file, on_bad=bad.append))
    assert [error.message for error in bad] == [raised.value.message]


def test_one_argument_under_two_perspectives_of_procon(tmp_path: Path) -> None:
    lines = [json.dumps({"question": "Q?", "arguments": {name: ["Same."]}}) for name in ("pro", "con")]
    with pytest.raises(DataError, match=r"'Same\.' is under 'con' and under 'pro'"):
        list(read_topics("procon:" + write(tmp_path / "p.jsonl", "\n".join(lines))))


def test_what_has_no_topics(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="wice has no topics"):
        list(read_topics(f"wice:{tmp_path}"))
    with pytest.raises(DataError, match=r"ends in '\.txt'"):
        list(read_topics("t.txt"))
    with pytest.raises(DataError, match="no such file"):
        list(read_topics("argkp:nowhere"))
    with pytest.raises(UnknownNameError):
        list(read_topics(perspectrum(tmp_path), "valid"))
    assert not has_topics("wice:x")


def topic(pro: int, con: int) -> Topic:
    sides = {"pro": pro, "con": con}
    return make_topic("t", "T", {p: [[f"{p} argument number {i} of it"] for i in range(n)] for p, n in sides.items()})


def test_equal_numbers_none_twice_and_the_same_for_a_seed() -> None:
    counts = set()
    for seed in range(40):
        drawn = draw_arguments(topic(5, 4), random.Random(seed))
        sides = [argument.perspective for argument in drawn]
        assert sides.count("pro") == sides.count("con")
        assert len({argument.id for argument in drawn}) == len(drawn)
        assert drawn == draw_arguments(topic(5, 4), random.Random(seed))
        counts.add(len(drawn))
    assert counts == {2, 4, 6}


def test_too_few_arguments() -> None:
    with pytest.raises(InputError, match="has 1 argument, for 'pro' only"):
        draw_arguments(make_topic("t", "T", {"pro": [["A."]]}), random.Random(0))
    with pytest.raises(InputError, match=r"2 arguments for 'con' .* 3 are asked for \(ask for at most 2\)"):
        draw_arguments(topic(3, 2), random.Random(0), 3)
    with pytest.raises(InputError, match="0 arguments for each"):
        draw_arguments(topic(3, 2), random.Random(0), 0)


def test_an_argument_inside_another_is_never_drawn_with_it() -> None:
    nested = make_topic("t", "T", {"pro": [["Cars kill"], ["Cars kill people"]], "con": [["It is new"], ["It is old"]]})
    for seed in range(20):
        assert len(draw_arguments(nested, random.Random(seed))) == 2
    with pytest.raises(InputError, match="1 arguments for 'pro'"):
        draw_arguments(nested, random.Random(0), 2)


def test_topics_that_share_an_argument_are_one_group() -> None:
    texts = {"d": ["Alpha"], "c": ["Beta"], "b": ["alpha.", "gamma"], "a": ["Gamma"]}
    groups = topic_groups([make_topic(i, f"Topic {i}", {"pro": [[t] for t in of]}) for i, of in texts.items()])
    assert groups == {"a": "a", "b": "a", "c": "c", "d": "a"}
