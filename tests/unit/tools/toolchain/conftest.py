import pytest


@pytest.fixture(autouse=True)
def _machine(own_folders, monkeypatch):
    """Put cache, state and plugins of every test into its own folder."""
    del own_folders
    monkeypatch.delenv("PULUMI_HOME", raising=False)
    monkeypatch.delenv("ATHANOR_TOOL_SOURCES", raising=False)
