"""From evidence to a recommendation, or to a plain no measurable difference."""
