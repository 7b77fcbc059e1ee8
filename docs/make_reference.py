"""Makes the pages of reference from the program: python docs/make_reference.py

reference/commands.md from the commands, reference/settings.md from the recipe and the options of
the cores, reference/http.md from the OpenAPI description of the server. A test compares.
"""

import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import typer.main
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from reltucker import Recipe
from reltucker.cli import app
from reltucker.model import CORES
from reltucker.serving.http.app import make_app

FOLDER = Path(__file__).parent / "reference"
BOUNDS = {Ge: (">=", "ge"), Gt: (">", "gt"), Le: ("<=", "le"), Lt: ("<", "lt")}
BRIEF = {"int": "integer", "float": "number", "bool": "true or false", "str": "text"}


def pages() -> dict[str, str]:
    """Every page that is made, by its name."""
    return {"commands": commands_page(), "settings": settings_page(), "http": http_page()}


def cell(text: str) -> str:
    """What may stand in a cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def table(*columns: str) -> Iterator[str]:
    """The head of a table."""
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)


# -- commands -----------------------------------------------------------------------------------


def commands() -> dict[str, Any]:
    """Every command by what a user types for it."""
    found: dict[str, Any] = {}
    for name, command in typer.main.get_command(app).commands.items():
        inner = getattr(command, "commands", {"": command})
        found |= {f"{name} {part}".strip(): inner[part] for part in inner}
    return found


def commands_page() -> str:
    """All commands, each with its arguments, options and example."""
    lines = [
        "# Commands",
        "",
        "Made from the program; `reltucker COMMAND --help` says the same. Exit codes, output and "
        "completion are told in [the command line](../commands.md).",
        "",
        *table("command", "what it does"),
    ]
    for name, command in commands().items():
        anchor = name.replace(" ", "-")
        lines.append(f"| [`{name}`](#{anchor}) | {cell(command.help.splitlines()[0])} |")
    for name, command in commands().items():
        lines += ["", *command_part(name, command)]
    return "\n".join(lines) + "\n"


def command_part(name: str, command: Any) -> Iterator[str]:
    """One command."""
    context = typer.Context(command)
    usage = " ".join(["reltucker", name, *command.collect_usage_pieces(context)])
    text, _, example = command.help.partition("Example: ")
    yield from (f"## {name}", "", *paragraphs(text), "", "```sh", f"# {usage}", example.strip())
    yield from ("```", "")
    records = [(option, option.get_help_record(context)) for option in command.params]
    yield from table("argument or option", "meaning")
    for _, record in records:
        if record is not None:
            yield f"| `{cell(record[0])}` | {cell(escaped(record[1]))} |"


def paragraphs(text: str) -> Iterator[str]:
    """A help text, each paragraph on a line."""
    parts = [re.sub(r"\s*\n\s*", " ", part).strip() for part in text.strip().split("\n\n")]
    yield escaped("\n\n".join(parts))


def escaped(text: str) -> str:
    """A help text in which nothing is taken for markup; code between backticks stays."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([<>*_\[\]])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


# -- settings -----------------------------------------------------------------------------------


def settings_page() -> str:
    """Every setting of a recipe, and the options of every core."""
    lines = [
        "# Settings",
        "",
        "Made from the recipe: every setting with its default, what it can be, what it means and "
        "the equation in which it stands. Symbols are those of [training](../training.md): q_b is "
        "the query of question b with the given entity g, relation k, answers A_b (n_b of them) "
        "and weight w_b; s_bn = <q_b, e_n\\>; N entities, K relations; [SRT](../sparse.md) has the "
        "equations of its gates. Set them in a recipe file, by `--set train.epochs=20`, or in "
        'Python by `settings={"train.epochs": 20}`. Defaults are the paper\'s protocol; what '
        "`reltucker train GRAPH` chooses in their place is told in "
        "[presets](../training.md#presets).",
    ]
    for section, field in Recipe.model_fields.items():
        if section != "core":
            settings = field.annotation
            lines += ["", *section_part(section, f"[{section}]", settings)]
    for name, core in CORES.items():
        if core.Options.model_fields:
            lines += ["", *section_part("core", f"[core] of {name}", core.Options)]
    return "\n".join(lines) + "\n"


def section_part(section: str, title: str, settings: Any) -> Iterator[str]:
    """The settings of a section."""
    yield from (f"## {title}", "")
    if section != "core":
        yield from (settings.__doc__.strip(), "")
    yield from table("setting", "default", "can be", "meaning", "equation")
    for name, field in settings.model_fields.items():
        default = shown(field.default)
        extra = field.json_schema_extra or {}
        equation = f"`{cell(extra['equation'])}`" if "equation" in extra else ""
        meaning = cell(escaped(field.description or ""))
        key = f"`{section}.{name}`"
        yield f"| {key} | {default} | {values(name, field)} | {meaning} | {equation} |"


def shown(default: Any) -> str:
    """A default as it is written in TOML."""
    if default is None:
        return ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default:.6g}`" if isinstance(default, float) else f"`{default}`"


def values(name: str, field: FieldInfo) -> str:
    """The type and the range of a setting, or the words that it takes."""
    from reltucker.training.objectives import OBJECTIVES, REGULARIZERS

    registries: dict[str, Any] = {"objective": OBJECTIVES, "regularizer": REGULARIZERS}
    if name in registries:
        return words(registries[name])
    if name == "name":
        return words(CORES)
    kind, bounds = unwrapped(field.annotation, list(field.metadata))
    if get_origin(kind) is Literal:
        return words(get_args(kind))
    if get_origin(kind) is list:
        inner = get_args(kind)[0]
        return "list of " + (words(get_args(inner)) if get_origin(inner) is Literal else "tables")
    limits = [
        f"{BOUNDS[type(bound)][0]} {getattr(bound, BOUNDS[type(bound)][1]):,}"
        for bound in bounds
        if type(bound) in BOUNDS
    ]
    name_of_kind = BRIEF.get(getattr(kind, "__name__", ""), "table")
    return cell(", ".join([name_of_kind, *limits]))


def unwrapped(kind: Any, metadata: list[Any]) -> tuple[Any, list[Any]]:
    """A type without `| None` and `Annotated`, and all bounds that are told with it."""
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (part for part in get_args(kind) if part is not type(None))
    if hasattr(kind, "__metadata__"):
        for part in kind.__metadata__:
            metadata += part.metadata if isinstance(part, FieldInfo) else [part]
        kind = kind.__origin__
    return kind, metadata


def words(names: Any) -> str:
    """Words that a setting takes."""
    return ", ".join(f"`{name}`" for name in names)


# -- HTTP ---------------------------------------------------------------------------------------


def http_page() -> str:
    """Every route with what it takes and answers, and the tables of their types."""
    described = make_app([]).app.openapi()  # below the guard
    lines = [
        "# HTTP API",
        "",
        "Made from the OpenAPI description, which a running server has at `/openapi.json`. "
        "Errors, limits and security are told in [over HTTP](../serving.md).",
        "",
        *table("route", "what it does"),
    ]
    routes = [
        (method.upper(), path, route)
        for path, methods in described["paths"].items()
        for method, route in methods.items()
    ]
    for method, path, route in routes:
        lines.append(f"| {method} `{path}` | {cell(escaped(summary(route)))} |")
    for method, path, route in routes:
        lines += ["", f"## {method} {path}", "", escaped(summary(route))]
        if parameters := route.get("parameters"):
            lines += ["", *table("parameter", "type", "meaning")]
            for parameter in parameters:
                type_ = type_text(parameter["schema"])
                meaning = cell(escaped(parameter.get("description", "")))
                lines.append(f"| `{parameter['name']}` ({parameter['in']}) | {type_} | {meaning} |")
        if body := route.get("requestBody"):
            lines += ["", f"Takes {content_text(body)}."]
        good = route["responses"].get("200", {})
        lines += ["", f"Answers {content_text(good)}."]
    lines += ["", "## Types"]
    for name, schema in sorted(described["components"]["schemas"].items()):
        lines += ["", f"### {name}", ""]
        if text := schema.get("description"):
            lines += [escaped(re.sub(r"\s*\n\s*", " ", text)), ""]
        if "properties" not in schema:
            lines.append(type_text(schema))
            continue
        required = schema.get("required", ())
        lines += table("field", "type", "default", "meaning")
        for key, part in schema["properties"].items():
            default = "required" if key in required else shown(part.get("default"))
            meaning = cell(escaped(part.get("description", "")))
            lines.append(f"| `{key}` | {type_text(part)} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def summary(route: dict[str, Any]) -> str:
    """What a route says of itself."""
    text = route.get("description") or route.get("summary", "")
    return re.sub(r"\s*\n\s*", " ", text).strip()


def content_text(part: dict[str, Any]) -> str:
    """What a body holds."""
    contents = part.get("content", {})
    said = [f"{type_text(found.get('schema', {}))} ({kind})" for kind, found in contents.items()]
    return ", ".join(said) or "nothing"


def type_text(schema: dict[str, Any]) -> str:
    """A JSON type in words, with its bounds."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if choices := schema.get("anyOf"):
        return " or ".join(type_text(choice) for choice in choices)
    if "enum" in schema:
        return words(schema["enum"])
    if "const" in schema:
        return words([schema["const"]])
    if schema.get("type") == "array":
        if "prefixItems" in schema:
            return "list of " + ", ".join(type_text(item) for item in schema["prefixItems"])
        return f"list of {type_text(schema.get('items', {}))}" + bounds_text(schema)
    return str(schema.get("type", "anything")) + bounds_text(schema)


def bounds_text(schema: dict[str, Any]) -> str:
    """The bounds of a JSON type."""
    keys = {
        "minimum": ">=",
        "exclusiveMinimum": ">",
        "maximum": "<=",
        "exclusiveMaximum": "<",
        "minLength": "length >=",
        "maxLength": "length <=",
        "minItems": "length >=",
        "maxItems": "length <=",
    }
    found = [f"{sign} {schema[key]:,}" for key, sign in keys.items() if key in schema]
    return f" ({cell(', '.join(found))})" if found else ""


def main() -> None:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
