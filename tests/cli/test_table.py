"""Text that fits a terminal and stays as it is in a pipe."""

from plugformer_cli import printing


def test_columns_with_chinese_are_aligned_on_a_terminal(capsys):
    """A terminal gives each of these characters two columns, and an accent of its own none."""
    printing.print_table(
        ("class", "text", "number"), [("财经", "cafe\u0301", "1"), ("a", "茶", "1,000")], right=("number",)
    )
    header, *rows = capsys.readouterr().out.splitlines()
    assert header == "class  text  number"
    assert rows == ["财经   cafe\u0301       1", "a      茶     1,000"]


def test_a_terminal_cuts_the_line_and_wraps_a_paragraph(capsys, monkeypatch):
    monkeypatch.setattr(printing, "terminal_width", lambda: 24)
    printing.print_table(("a",), [("x" * 30,), ("财" * 12,), ("财" * 13,)])
    printing.print_text("some words that do not fit on one line", indent=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == ["x" * 23 + "…", "财" * 12, "财" * 11 + "…"]
    assert lines[4:] == ["  some words that do not", "  fit on one line"]
    printing.print_text("what is wrong\nwhat to do", indent=2)
    assert capsys.readouterr().out == "  what is wrong\n  what to do\n"
