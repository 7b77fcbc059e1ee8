"""Models are asked over HTTP; needs the optional extra `serve`."""

from reltucker.serving.http.app import make_app
from reltucker.serving.http.guard import Limits
from reltucker.serving.http.predictor import Options, Predictor
from reltucker.serving.http.server import Address, read_token, serve

__all__ = ["Address", "Limits", "Options", "Predictor", "make_app", "read_token", "serve"]
