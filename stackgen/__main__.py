"""Run the command: python -m stackgen."""


def main() -> None:
    """Run the command line."""
    from stackgen.cli import main as run

    run()


if __name__ == "__main__":
    main()
