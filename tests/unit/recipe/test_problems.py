import pytest

from mlcat_ingest.recipe.loader import Loc, Origin, Problem, nearest, path_text


@pytest.mark.parametrize(
    ("loc", "text"),
    [
        ((), ""),
        (("a",), "a"),
        (("sources", 0, "config", "x"), "sources[0].config.x"),
        (("headers", "X-A b"), 'headers["X-A b"]'),
        (("a\nb",), '["a\\nb"]'),
        (("x." + "y" * 80,), '["x.' + "y" * 58 + '\\u2026"]'),
    ],
)
def test_path_text(loc: Loc, text: str) -> None:
    assert path_text(loc) == text


@pytest.mark.parametrize(
    ("problem", "label", "text"),
    [
        (Problem(("a",), "is wrong", 3), "r.yml", "r.yml:3: a: is wrong"),
        (Problem(("a",), "is wrong"), "r.yml", "r.yml: a: is wrong"),
        (Problem((), "is wrong", 1), "r.yml", "r.yml:1: is wrong"),
        (Problem(("a",), "is wrong", 3), "", "a: is wrong"),
    ],
)
def test_render(problem: Problem, label: str, text: str) -> None:
    assert problem.render(label) == text


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("traking_uri", ["tracking_uri", "token"], "tracking_uri"),
        ("Tracking-URI", ["tracking_uri"], "tracking_uri"),
        ("colour", ["server", "token"], None),
    ],
)
def test_nearest(word: str, known: list[str], meant: str | None) -> None:
    assert nearest(word, known) == meant


def test_places_are_shown_as_written_with_the_line_of_the_nearest_thing() -> None:
    origin = Origin(
        "r.yml",
        lines={(): 1, ("source",): 2, ("source", "config"): 4},
        spelled={("sources",): ("source",), ("sources", 0): ("source",)},
    )
    assert origin.problem(("sources", 0, "config", "x", "y"), "is wrong").render("r.yml") == (
        "r.yml:4: source.config.x.y: is wrong"
    )
    assert origin.problem(("sources",), "is wrong").loc == ("source",)
    assert origin.problem(("other",), "is wrong").line == 1
    assert Origin().problem(("other",), "is wrong").line is None


def test_an_error_lists_each_problem_once_in_the_order_of_the_file() -> None:
    problems = [Problem(("b",), "two", 2), Problem((), "none"), Problem(("a",), "one", 1)]
    error = Origin("r.yml").error([*problems, problems[0]])
    assert error.problems == ("r.yml: none", "r.yml:1: a: one", "r.yml:2: b: two")
    assert str(error) == "\n".join(error.problems)
