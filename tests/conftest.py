"""Options of the test suite."""


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite what follows '# after' in tests/golden instead of comparing it",
    )
