"""Where recipes are: files of the user's, and by name those that come with the program."""

import os
from pathlib import Path

from reltucker.errors import RecipeError
from reltucker.training.settings import nearest

SHIPPED = Path(__file__).parents[1] / "recipes"
"""With the folders `best` and `paper`; `recipes/` in the repository leads here."""


def recipe_names() -> list[str]:
    """The recipes that come with the program, such as best/wn18rr-rescal-256."""
    return sorted(f"{path.parent.name}/{path.stem}" for path in SHIPPED.glob("*/*.toml"))


def names_recipe(argument: str) -> bool:
    """Whether what may also be a graph is a recipe: by its ending, or because it reads like the
    name of one and is no file or folder."""
    if argument.lower().endswith(".toml"):
        return True
    return _reads_like_name(_name(argument)) and not os.path.exists(argument)


def recipe_file(argument: Path | str) -> Path:
    """The file of a recipe. The user's own comes first, then that of the program with this name;
    what reads like a name and is none is refused."""
    name = _name(str(argument))
    if os.path.isfile(argument) or not _reads_like_name(name):
        return Path(argument)
    if os.path.isfile(own := f"{argument}.toml"):
        return Path(own)
    if name not in (names := recipe_names()):
        what = f"{str(argument)[:200]}: there is no such file, and no recipe of that name"
        raise RecipeError(what + nearest(name, names))
    return SHIPPED / f"{name}.toml"


def _name(argument: str) -> str:
    return argument.removeprefix("recipes/").removesuffix(".toml")


def _reads_like_name(name: str) -> bool:
    """Whether it begins with one of the folders, or is a name without its folder."""
    folder, slash, _ = name.partition("/")
    known = (each.split("/") for each in recipe_names())
    return any(folder == (parent if slash else stem) for parent, stem in known)
