"""The built-in graph: invented families over five generations, their towns, work and languages.

A triple (subject, relation, object) reads "the subject's relation is the object":
(Alma Berger, mother, Ida Berger) says that Ida is Alma's mother. The kinship relations follow
from the family tree without exception:

- parent(i, j) if and only if mother(i, j) or father(i, j); child is its inverse;
- sibling: two people with the same mother and father (nobody marries twice);
- grandparent: a parent's parent; grandchild is its inverse;
- uncle_aunt: a parent's sibling (not the sibling's spouse); nephew_niece is its inverse;
- cousin: a child of a parent's sibling.

The other relations are regular but not certain: children are mostly born where their parents
live, spouses mostly live together, work runs in families and regions, languages follow countries.
"""

# ruff: noqa: SIM905 - a word list as text is a fifth of the lines of a list of strings.

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from reltucker.graph.knowledge_graph import KnowledgeGraph
from reltucker.graph.splitting import split_triples
from reltucker.graph.vocabulary import Vocabulary

RELATIONS = (
    "mother father parent child spouse sibling grandparent grandchild uncle_aunt nephew_niece "
    "cousin born_in lives_in located_in borders capital citizen_of works_as speaks "
    "official_language"
).split()

FOUNDING_COUPLES = 28
GENERATIONS = 5
FAMILY_SIZES = (2, 3, 1, 2, 4, 3, 2)

# Country: its official languages (the first is everyone's), and its regions with their towns.
# The first town of the first region is the capital.
COUNTRIES: dict[str, tuple[list[str], dict[str, list[str]]]] = {
    "Norland": (
        ["Norlandic"],
        {
            "Northfirth": ["Askvik", "Brannes", "Holmsted"],
            "Highmoor": ["Fellgate", "Stonebeck", "Ravenhill"],
            "Eastholm": ["Lindhaven", "Sundby", "Tornvik"],
        },
    ),
    "Estmark": (
        ["Estmarkish", "Norlandic"],
        {
            "Linden Plain": ["Karlsberg", "Mittelau", "Obersee"],
            "Silver Hills": ["Erzbach", "Grubental", "Hohenfels"],
            "Amber Coast": ["Dornhafen", "Seewald", "Strandau"],
        },
    ),
    "Verania": (
        ["Veranian"],
        {
            "Upper Vale": ["Montclair", "Valbrune", "Pontvert"],
            "Vine Country": ["Clairvigne", "Bellerive", "Rochefleur"],
            "River March": ["Deuxponts", "Hauterive", "Maresol"],
        },
    ),
    "Costaluna": (
        ["Lunese", "Veranian"],
        {
            "Golden Bay": ["Portolano", "Marisella", "Bahiarosa"],
            "Olive Ridge": ["Olivara", "Montesecco", "Pietralta"],
            "Salt Isles": ["Salina", "Isoletta", "Farolunga"],
        },
    ),
}
TRADE_LANGUAGE = "Tradespeech"
TRADE_OCCUPATIONS = ("merchant", "sailor", "translator", "innkeeper", "engineer")
OCCUPATIONS = (
    "baker carpenter teacher farmer physician mason sailor fisher miner smith weaver vintner "
    "merchant innkeeper translator engineer librarian gardener painter musician shepherd tailor "
    "printer clockmaker"
).split()
WOMEN = (
    "Ada Agnes Alma Anna Berta Carla Clara Cora Dora Edith Elena Elsa Emma Erika Flora Frida Gerda "
    "Greta Hanna Hedda Helga Hilda Ida Ines Irma Jana Judith Julia Karin Lea Lena Lina Lotte Lucia "
    "Mara Marta Mila Nadia Nora Olga Paula Rosa Ruth Sofia Stella Tilda Ursula Vera Wanda Zelda"
).split()
MEN = (
    "Adam Alban Anton Arno Bela Bruno Carl David Edgar Egon Emil Erik Felix Franz Georg Gustav "
    "Hans Hugo Igor Ivan Jakob Jonas Josef Julian Karl Klaus Lars Leo Ludwig Lukas Magnus Marco "
    "Martin Max Nils Oskar Otto Paul Peter Ralf Robert Rolf Samuel Simon Stefan Theo Tomas Victor "
    "Walter Yann"
).split()
FAMILY_NAMES = (
    "Abel Adler Amsel Arnaud Bauer Becker Bellini Berger Bertrand Brandt Caruso Castell Conti "
    "Dahl Delacroix Duval Eklund Engel Falk Ferrari Fischer Fontana Gallo Garnier Hagen Hansen "
    "Holm Jansen Keller Kirsch Lambert Lang Laurent Lindgren Lombardi Marchand Marino Moreau "
    "Morgen Nilsson Nyberg Orlandi Petit Renard Ricci Rossi Roth Sander Seidel Serra Sommer Stein "
    "Strand Tessier Valentin Vidal Vogel Wagner Winter Zimmer"
).split()

NamedTriple = tuple[str, str, str]
T = TypeVar("T")


def families(seed: int = 0) -> KnowledgeGraph:
    """The built-in graph: about 360 people, 20 relations and 10,000 triples, made from `seed`.

    A tenth of the triples each is held out for valid and test, such that every entity and
    relation also occurs in train. The same seed gives the same graph on any machine.
    """
    world = _World(_Draw(seed))
    stated = [triple for person in world.people for triple in _kinship(person)]
    stated += [triple for person in world.people for triple in _life(world, person)]
    stated += _geography()
    triples = list(dict.fromkeys(stated))
    names = list(dict.fromkeys(name for s, _, o in triples for name in (s, o)))
    entity_ids = {name: i for i, name in enumerate(names)}
    relation_ids = {name: k for k, name in enumerate(RELATIONS)}
    ids = [(entity_ids[s], relation_ids[r], entity_ids[o]) for s, r, o in triples]
    train, valid, test = split_triples(np.array(ids, np.int32), len(names), len(RELATIONS), seed)
    return KnowledgeGraph(
        "families",
        Vocabulary(names, kind="entity"),
        Vocabulary(RELATIONS, kind="relation"),
        train,
        valid,
        test,
        seen_entities=len(names),
        seen_relations=len(RELATIONS),
    )


class _Draw:
    """Chance from a seed, from uniform floats alone.

    NumPy may change how a Generator shuffles or chooses between its versions; a named bit
    generator and its floats stay the same, so the triples do too.
    """

    def __init__(self, seed: int) -> None:
        self.generator = np.random.Generator(np.random.PCG64(seed))

    def chance(self, probability: float) -> bool:
        return self.generator.random() < probability

    def one_of(self, options: Sequence[T]) -> T:
        return options[int(self.generator.random() * len(options))]

    def weighted(self, options: Sequence[T], weights: Sequence[float]) -> T:
        rest = self.generator.random() * sum(weights)
        for option, weight in zip(options, weights, strict=True):
            rest -= weight
            if rest < 0:
                return option
        return options[-1]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        keys = self.generator.random(len(options))
        return [options[i] for i in np.argsort(keys, kind="stable")]


@dataclass(frozen=True, eq=False)
class _Town:
    name: str
    region: str
    country: str


@dataclass(eq=False)
class _Person:
    is_woman: bool
    family_name: str
    birthplace: _Town
    home: _Town
    mother: "_Person | None" = None
    father: "_Person | None" = None
    spouse: "_Person | None" = None
    children: list["_Person"] = field(default_factory=list)
    occupation: str | None = None
    name: str = ""

    @property
    def parents(self) -> list["_Person"]:
        return [p for p in (self.mother, self.father) if p is not None]

    @property
    def grandparents(self) -> list["_Person"]:
        return [g for p in self.parents for g in p.parents]

    @property
    def siblings(self) -> list["_Person"]:
        return [] if self.mother is None else [c for c in self.mother.children if c is not self]


class _World:
    """Places with their people, from the founding couples to the youngest children."""

    def __init__(self, draw: _Draw) -> None:
        self.draw = draw
        self.towns = [
            _Town(town, region, country)
            for country, (_, regions) in COUNTRIES.items()
            for region, towns in regions.items()
            for town in towns
        ]
        self.capitals = {t.country: t for t in reversed(self.towns)}
        regions = list(dict.fromkeys(t.region for t in self.towns))
        self.trades = {region: draw.shuffled(OCCUPATIONS)[:3] for region in regions}
        generation = self._founders()
        self.people = list(generation)
        for _ in range(GENERATIONS - 2):
            generation = self._children_of(generation)
            self._settle(generation)
            self.people += generation
        # The youngest are still children: at home with their mothers, without work or spouse.
        self.people += self._children_of(generation)
        self._give_names()

    def _founders(self) -> list[_Person]:
        founders = []
        names = self.draw.shuffled(FAMILY_NAMES)
        for name in names[:FOUNDING_COUPLES]:
            town = self.draw.one_of(self.towns)
            husband = _Person(False, name, town, town)
            wife = _Person(True, name, self._neighbour(town), town)
            husband.spouse, wife.spouse = wife, husband
            founders += [husband, wife]
        for person in founders:
            person.occupation = self._occupation(person)
        return founders

    def _neighbour(self, town: _Town) -> _Town:
        return self.draw.one_of([t for t in self.towns if t.region == town.region])

    def _children_of(self, generation: list[_Person]) -> list[_Person]:
        couples = [(p, p.spouse) for p in generation if not p.is_woman and p.spouse is not None]
        # Dealt like a pack of cards: family sizes differ, the size of the graph hardly does.
        sizes = self.draw.shuffled(
            [FAMILY_SIZES[n % len(FAMILY_SIZES)] for n in range(len(couples))]
        )
        girls = self.draw.shuffled([n % 2 == 0 for n in range(sum(sizes))])
        born: list[_Person] = []
        for (father, mother), size in zip(couples, sizes, strict=True):
            for _ in range(size):
                birthplace = father.home if self.draw.chance(0.9) else self._neighbour(father.home)
                child = _Person(girls[len(born)], father.family_name, birthplace, mother.home)
                child.mother, child.father = mother, father
                mother.children.append(child)
                father.children.append(child)
                born.append(child)
        return born

    def _settle(self, generation: list[_Person]) -> None:
        """Grown-up children marry, choose a home and take up work."""
        single = [p for p in generation if p.is_woman]
        for man in self.draw.shuffled([p for p in generation if not p.is_woman]):
            candidates = [w for w in single if not _related(man, w)]
            if not candidates or self.draw.chance(0.1):
                continue
            woman = self.draw.weighted(candidates, [_nearness(man, w) for w in candidates])
            single.remove(woman)
            self._marry(man, woman)
        for person in generation:
            if person.spouse is None and self.draw.chance(0.3):
                person.home = self.capitals[person.birthplace.country]
            person.occupation = self._occupation(person)

    def _marry(self, man: _Person, woman: _Person) -> None:
        man.spouse, woman.spouse = woman, man
        man.family_name = woman.family_name = self.draw.one_of([man, woman]).family_name
        country = man.birthplace.country
        places = [man.home, woman.home, self.capitals[country], self.draw.one_of(self.towns)]
        man.home = woman.home = self.draw.weighted(places, (0.42, 0.42, 0.1, 0.06))
        if self.draw.chance(0.05):
            woman.home = self._neighbour(man.home)

    def _occupation(self, person: _Person) -> str:
        inherited = [p.occupation for p in person.parents if p.occupation is not None]
        if inherited and self.draw.chance(0.5):
            return self.draw.one_of(inherited)
        if self.draw.chance(0.75):
            return self.draw.one_of(self.trades[person.home.region])
        return self.draw.one_of(OCCUPATIONS)

    def _give_names(self) -> None:
        """Given names last, when family names are final, so that few names need a number."""
        bearers: Counter[str] = Counter()
        for person in self.people:
            given = WOMEN if person.is_woman else MEN
            free = [g for g in given if not bearers[f"{g} {person.family_name}"]]
            name = f"{self.draw.one_of(free or given)} {person.family_name}"
            bearers[name] += 1
            person.name = name if bearers[name] == 1 else f"{name} {'I' * bearers[name]}"

    def languages(self, person: _Person) -> list[str]:
        """Those of the birthplace, the home and the mother's birthplace, and some by chance."""
        places = [person.birthplace, person.home]
        if person.mother is not None:
            places.append(person.mother.birthplace)
        spoken = [COUNTRIES[place.country][0][0] for place in places]
        others = COUNTRIES[person.home.country][0][1:]
        spoken += [language for language in others if self.draw.chance(0.3)]
        if self.draw.chance(0.7 if person.occupation in TRADE_OCCUPATIONS else 0.05):
            spoken.append(TRADE_LANGUAGE)
        return list(dict.fromkeys(spoken))


def _related(first: _Person, second: _Person) -> bool:
    ancestors = {id(p) for p in first.parents + first.grandparents}
    return any(id(p) in ancestors for p in second.parents + second.grandparents)


def _nearness(first: _Person, second: _Person) -> float:
    if first.home is second.home:
        return 20.0
    if first.home.region == second.home.region:
        return 10.0
    return 4.0 if first.home.country == second.home.country else 0.3


def _kinship(person: _Person) -> Iterator[NamedTriple]:
    uncles_aunts = [s for p in person.parents for s in p.siblings]
    relatives: dict[str, list[_Person]] = {
        "mother": [person.mother] if person.mother else [],
        "father": [person.father] if person.father else [],
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
        for other in others:
            yield person.name, relation, other.name


def _life(world: _World, person: _Person) -> Iterator[NamedTriple]:
    born, home = person.birthplace, person.home
    yield person.name, "born_in", born.name
    yield person.name, "lives_in", home.name
    yield person.name, "citizen_of", born.country
    if home.country != born.country and world.draw.chance(0.5):
        yield person.name, "citizen_of", home.country
    if person.occupation is not None:
        yield person.name, "works_as", person.occupation
    for language in world.languages(person):
        yield person.name, "speaks", language


def _geography() -> Iterator[NamedTriple]:
    every_region = [region for _, regions in COUNTRIES.values() for region in regions]
    borders = list(zip(every_region, every_region[1:] + every_region[:1], strict=True))
    for country, (languages, regions) in COUNTRIES.items():
        first, *_, last = regions
        borders.append((first, last))
        yield country, "capital", regions[first][0]
        for language in languages:
            yield country, "official_language", language
        for region, towns in regions.items():
            yield region, "located_in", country
            for town in towns:
                yield town, "located_in", region
    for one, other in borders:
        yield one, "borders", other
        yield other, "borders", one
