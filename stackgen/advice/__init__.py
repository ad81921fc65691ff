"""From evidence to a recommendation, or to a plain no measurable difference."""

from stackgen.advice.recommend import advise

__all__ = ["advise"]
