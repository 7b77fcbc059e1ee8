"""The built-in graph: invented families over five generations, their towns, work and languages.

A triple (subject, relation, object) reads "the subject's relation is the object":
(Alma Bauer, mother, Rosa Lindgren) says that Rosa is Alma's mother. The kinship relations follow
from the family tree without exception:

- parent(i, j) if and only if mother(i, j) or father(i, j); child is its inverse;
- sibling: two people with the same mother and father (nobody marries twice);
- grandparent: a parent's parent; grandchild is its inverse;
- uncle_aunt: a parent's sibling (not the sibling's spouse); nephew_niece is its inverse;
- cousin: a child of a parent's sibling.

The other relations are regular but not certain: children are mostly born where their parents
live, spouses mostly live together, work runs in families and regions, languages follow countries.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from reltucker.graph.knowledge_graph import KnowledgeGraph
from reltucker.graph.splitting import split_triples
from reltucker.graph.vocabulary import Vocabulary

FOUNDING_COUPLES = 28
GENERATIONS = 5
FAMILY_SIZES = (2, 3, 1, 2, 4, 3, 2)
TRADE_LANGUAGE = "Tradespeech"


class Town(NamedTuple):
    """A town with the places that it lies in."""

    name: str
    region: str
    country: str


_words = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
RELATIONS, OCCUPATIONS, TRADING, WOMEN, MEN, FAMILY_NAMES = (
    _words[key].split()
    for key in ("relations", "occupations", "trading", "women", "men", "family_names")
)
LANGUAGES: dict[str, list[str]] = _words["languages"]
TOWNS = [
    Town(town, region, country)
    for country, regions in _words["towns"].items()
    for region, towns in regions.items()
    for town in towns
]
REGIONS = {town.region: town.country for town in TOWNS}
CAPITALS = {town.country: town for town in reversed(TOWNS)}

NamedTriple = tuple[str, str, str]
T = TypeVar("T")


def families(seed: int = 0) -> KnowledgeGraph:
    """The built-in graph: about 360 people, 20 relations and 10,000 triples, made from `seed`.

    A tenth of the triples each is held out for valid and test, such that every entity and
    relation also occurs in train. The same seed gives the same graph on any machine.
    """
    world = _World(seed)
    stated = [triple for person in world.people for triple in _kinship(person)]
    stated += [triple for person in world.people for triple in world.life(person)]
    stated += _geography()
    triples = dict.fromkeys(stated)
    names = list(dict.fromkeys(name for s, _, o in triples for name in (s, o)))
    number = {name: i for i, name in enumerate(names)}
    ids = np.array([(number[s], RELATIONS.index(r), number[o]) for s, r, o in triples], np.int32)
    return KnowledgeGraph(
        "families",
        Vocabulary(names, kind="entity"),
        Vocabulary(RELATIONS, kind="relation"),
        *split_triples(ids, len(names), len(RELATIONS), seed),
        seen_entities=len(names),
        seen_relations=len(RELATIONS),
    )


@dataclass(eq=False)
class _Person:
    is_woman: bool
    family_name: str
    birthplace: Town
    home: Town
    parents: tuple["_Person", ...] = ()  # mother and father, or nobody
    spouse: "_Person | None" = None
    children: list["_Person"] = field(default_factory=list)
    occupation: str = ""
    name: str = ""

    @property
    def grandparents(self) -> list["_Person"]:
        return [g for p in self.parents for g in p.parents]

    @property
    def siblings(self) -> list["_Person"]:
        return [c for mother in self.parents[:1] for c in mother.children if c is not self]


class _World:
    """The people, from the founding couples to the youngest children.

    All chance comes from uniform floats. NumPy may change how a Generator shuffles or chooses
    between its versions; a named bit generator and its floats stay the same, so the triples do too.
    """

    def __init__(self, seed: int) -> None:
        self.random = np.random.Generator(np.random.PCG64(seed)).random
        self.trades = {region: self.shuffled(OCCUPATIONS)[:3] for region in REGIONS}
        generation = []
        for name in self.shuffled(FAMILY_NAMES)[:FOUNDING_COUPLES]:
            town = self.one_of(TOWNS)
            husband = _Person(False, name, town, town)
            wife = _Person(True, name, self.neighbour(town), town, spouse=husband)
            husband.spouse = wife
            generation += [husband, wife]
        self._take_up_work(generation)
        self.people = list(generation)
        for _ in range(GENERATIONS - 2):
            generation = self._children_of(generation)
            self._marry(generation)
            self._take_up_work(generation)
            self.people += generation
        # The youngest are still children: at home with their mothers, without work or spouse.
        self.people += self._children_of(generation)
        # Given names last, when family names are final, so that few names need a number.
        bearers: Counter[str] = Counter()
        for person in self.people:
            given = WOMEN if person.is_woman else MEN
            free = [g for g in given if not bearers[f"{g} {person.family_name}"]]
            name = f"{self.one_of(free or given)} {person.family_name}"
            bearers[name] += 1
            person.name = name if bearers[name] == 1 else f"{name} {'I' * bearers[name]}"

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def one_of(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]

    def weighted(self, options: Sequence[T], weights: Sequence[float]) -> T:
        place = np.searchsorted(np.cumsum(weights), self.random() * sum(weights), "right")
        return options[min(int(place), len(options) - 1)]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        return [options[i] for i in np.argsort(self.random(len(options)), kind="stable")]

    def neighbour(self, town: Town) -> Town:
        return self.one_of([other for other in TOWNS if other.region == town.region])

    def _children_of(self, generation: list[_Person]) -> list[_Person]:
        couples = [(p.spouse, p) for p in generation if not p.is_woman and p.spouse is not None]
        # Dealt like a pack of cards: family sizes differ, the size of the graph hardly does.
        sizes = self.shuffled([FAMILY_SIZES[n % len(FAMILY_SIZES)] for n in range(len(couples))])
        girls = iter(self.shuffled([n % 2 == 0 for n in range(sum(sizes))]))
        for couple, size in zip(couples, sizes, strict=True):
            mother, father = couple
            for _ in range(size):
                town = father.home if self.chance(0.9) else self.neighbour(father.home)
                child = _Person(next(girls), father.family_name, town, mother.home, couple)
                mother.children.append(child)
                father.children.append(child)
        return [child for mother, _ in couples for child in mother.children]

    def _marry(self, generation: list[_Person]) -> None:
        single = [p for p in generation if p.is_woman]
        for man in self.shuffled([p for p in generation if not p.is_woman]):
            kin = {*man.parents, *man.grandparents}
            candidates = [w for w in single if kin.isdisjoint([*w.parents, *w.grandparents])]
            if not candidates or self.chance(0.1):
                continue
            woman = self.weighted(candidates, [_nearness(man.home, w.home) for w in candidates])
            single.remove(woman)
            man.spouse, woman.spouse = woman, man
            man.family_name = woman.family_name = self.one_of([man, woman]).family_name
            capital = CAPITALS[man.birthplace.country]
            places = [man.home, woman.home, capital, self.one_of(TOWNS)]
            man.home = woman.home = self.weighted(places, (0.42, 0.42, 0.1, 0.06))
            if self.chance(0.05):
                woman.home = self.neighbour(man.home)

    def _take_up_work(self, generation: list[_Person]) -> None:
        for person in generation:
            if person.spouse is None and self.chance(0.3):
                person.home = CAPITALS[person.birthplace.country]
            if person.parents and self.chance(0.5):
                person.occupation = self.one_of(person.parents).occupation
            elif self.chance(0.75):
                person.occupation = self.one_of(self.trades[person.home.region])
            else:
                person.occupation = self.one_of(OCCUPATIONS)

    def life(self, person: _Person) -> Iterator[NamedTriple]:
        """Places, work, and the languages of three places and some by chance."""
        born, home = person.birthplace, person.home
        yield person.name, "born_in", born.name
        yield person.name, "lives_in", home.name
        yield person.name, "citizen_of", born.country
        if home.country != born.country and self.chance(0.5):
            yield person.name, "citizen_of", home.country
        if person.occupation:
            yield person.name, "works_as", person.occupation
        places = [born, home, *(mother.birthplace for mother in person.parents[:1])]
        spoken = [LANGUAGES[place.country][0] for place in places]
        spoken += [other for other in LANGUAGES[home.country][1:] if self.chance(0.3)]
        if self.chance(0.7 if person.occupation in TRADING else 0.05):
            spoken.append(TRADE_LANGUAGE)
        yield from ((person.name, "speaks", language) for language in spoken)


def _nearness(one: Town, other: Town) -> float:
    """The weight of a marriage between two homes."""
    if one.country != other.country:
        return 0.3
    return 20.0 if one == other else 10.0 if one.region == other.region else 4.0


def _kinship(person: _Person) -> Iterator[NamedTriple]:
    uncles_aunts = [s for p in person.parents for s in p.siblings]
    relatives: dict[str, Sequence[_Person]] = {
        "mother": person.parents[:1],
        "father": person.parents[1:],
        "parent": person.parents,
        "child": person.children,
        "spouse": [person.spouse] if person.spouse else [],
        "sibling": person.siblings,
        "grandparent": person.grandparents,
        "grandchild": [g for c in person.children for g in c.children],
        "uncle_aunt": uncles_aunts,
        "nephew_niece": [c for s in person.siblings for c in s.children],
        "cousin": [c for u in uncles_aunts for c in u.children],
    }
    for relation, others in relatives.items():
        yield from ((person.name, relation, other.name) for other in others)


def _geography() -> Iterator[NamedTriple]:
    ring = list(REGIONS)
    borders = list(zip(ring, ring[1:] + ring[:1], strict=True))
    for country, languages in LANGUAGES.items():
        regions = [region for region in ring if REGIONS[region] == country]
        borders.append((regions[0], regions[-1]))
        yield country, "capital", CAPITALS[country].name
        for language in languages:
            yield country, "official_language", language
        for region in regions:
            yield region, "located_in", country
            yield from ((t.name, "located_in", region) for t in TOWNS if t.region == region)
    for one, other in borders:
        yield one, "borders", other
        yield other, "borders", one
