"""Errors that a user can cause: one sentence that says what is wrong, where, and what to do."""


class ReltuckerError(Exception):
    """Base of every error that a user can cause; the command line prints it and exits with 2."""


class GraphError(ReltuckerError):
    """Triples, labels or an archive that cannot be used as they are."""


class RecipeError(ReltuckerError):
    """A setting that does not exist or a value that it cannot take."""


class RunError(ReltuckerError):
    """A run folder that is missing, damaged, or in a state that does not allow the request."""


class FolderInUseError(RunError):
    """A folder that another process writes at the moment."""


class PeersError(RunError):
    """Another process of the same training that is gone, or does not answer."""


class EndedTooEarlyError(RunError):
    """A training that was ended before there was anything to keep."""


class NameNotFoundError(ReltuckerError):
    """A name that is not in the graph's vocabulary."""


class ScoreError(ReltuckerError):
    """Scores that are not finite numbers, so that no rank or prediction can be trusted."""


class StudyError(ReltuckerError):
    """A study of settings that cannot be begun, continued or ended as it is."""


class NoModelError(StudyError):
    """A search none of whose trials ended with a model."""
