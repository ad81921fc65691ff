"""From evidence to a recommendation, or to a plain no measurable difference."""

from stackgen.advice.recommend import Admits, advise

__all__ = ["Admits", "advise"]
