"""Run the command: python -m stackgen."""


def main() -> None:
    """Run the command line."""
    try:
        from stackgen.cli import main as run
    except KeyboardInterrupt:  # before there is anything that could explain it
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
