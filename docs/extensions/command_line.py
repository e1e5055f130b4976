"""Write the options of every command into docs/guide/command_line.md, from the parsers themselves.

What a person wrote on that page stays: only the text between a mark ``<!-- options: fit -->`` and ``<!-- end -->`` is
replaced. Run ``python docs/extensions/command_line.py``; a test compares the page with the parsers.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from optfair.cli.arguments import make_parser

PAGE = Path(__file__).parents[1] / "guide" / "command_line.md"
BLOCK = re.compile(r"<!-- options: (?P<command>[\w-]+) -->\n.*?<!-- end -->", flags=re.DOTALL)
CSV = ("--encoding", "--separator", "--decimal", "--na")  # of every command that reads a table
SHARED = (*CSV, "--quiet")


def command_parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of every command, in the order of ``optfair --help``."""
    return dict(subparsers(make_parser()).choices)


def subparsers(parser: argparse.ArgumentParser) -> argparse._SubParsersAction:
    """Return the commands of the main parser."""
    return next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))


def summaries() -> dict[str, str]:
    """Return what ``optfair --help`` says of every command."""
    return {choice.dest: choice.help or "" for choice in subparsers(make_parser())._choices_actions}


def options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield what a command accepts, without its help."""
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction | argparse._VersionAction) and action.help != argparse.SUPPRESS:
            yield action


def invocation(action: argparse.Action) -> str:
    """Return how an option is written: ``-o OUT, --output OUT``."""
    if not action.option_strings:
        return str(action.metavar or action.dest)
    value = ""
    if action.nargs != 0:
        choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
        value = f" {action.metavar or choices or action.dest.upper().replace('-', '_')}"
    return ", ".join(f"{name}{value}" for name in action.option_strings)


def description(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """Return the help of an option as Markdown."""
    text = " ".join((action.help or "").split()) % {**vars(action), "prog": parser.prog}
    text = re.sub(r"(?<![`\w-])(--?[a-z][\w-]*(?: (?:in|infer)\b)?)(?![`\w])", r"`\1`", text)
    text = re.sub(r"(?<!`)\b(FILE|NAME|OUT2|OUT|STATE|VALUE)\b(?!`)", r"`\1`", text)
    text = text.replace("*", r"\*").replace("<", r"\<")
    return text if text.endswith(".") else f"{text}."


def requirement(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """Return whether a command does not run without this option, or without another one in its place."""
    if not action.option_strings:
        return ""
    for group in parser._mutually_exclusive_groups:
        if group.required and action in group._group_actions:
            others = [f"`{other.option_strings[-1]}`" for other in group._group_actions if other is not action]
            return f" (required, or {' or '.join(others)})"
    return " (required)" if action.required else ""


def item(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """Return the line of an option."""
    return f"- `{invocation(action)}`{requirement(action, parser)}: {description(action, parser)}"


def option_list(name: str) -> str:
    """Return the options of a command as Markdown; ``shared`` are those of every command that reads a table."""
    parsers = command_parsers()
    if name == "shared":
        parser = parsers["fit"]
        return "\n".join(item(action, parser) for action in options(parser) if {*action.option_strings} & {*SHARED})
    if name == "commands":
        return "\n".join(
            f"- [`optfair {command}`](#optfair-{command}): {text}." for command, text in summaries().items()
        )
    parser = parsers[name]
    own = [action for action in options(parser) if not {*action.option_strings} & {*SHARED}]
    lines = [item(action, parser) for action in own]
    if any({*action.option_strings} & {*CSV} for action in options(parser)):
        lines += ["", "It also takes the [options of every table](#options-of-every-table)."]
    return "\n".join(lines)


def write(text: str) -> str:
    """Return the page with the options as the parsers have them now."""

    def replace(match: re.Match[str]) -> str:
        command = match["command"]
        return f"<!-- options: {command} -->\n\n{option_list(command)}\n\n<!-- end -->"

    return BLOCK.sub(replace, text)


if __name__ == "__main__":
    PAGE.write_text(write(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
