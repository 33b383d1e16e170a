"""Shared by all tests.

Slow ones are left out unless ``-m`` speaks of them, as ``-m "slow or not slow"`` does, or a test is named by its id.
"""

pytest_plugins = ["pytester"]


def pytest_collection_modifyitems(config, items):
    if "slow" in config.option.markexpr or any("::" in argument for argument in config.args):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]
