"""Stands in for amd-smi's library beside :mod:`stand_in_hip`: one MI300X, at rest but for its power limit."""

from types import SimpleNamespace

AmdSmiClkType = SimpleNamespace(GFX=1, MEM=2)
AmdSmiTemperatureType = SimpleNamespace(HOTSPOT=1)
AmdSmiTemperatureMetric = SimpleNamespace(CURRENT=0)
_metrics = {"ppt_residency_acc": 0, "prochot_residency_acc": 0}


def amdsmi_init():
    pass


def amdsmi_get_processor_handles():
    return ["gpu"]


def amdsmi_get_gpu_device_bdf(handle):
    return "0000:05:00.0"


def amdsmi_get_clock_info(handle, kind):
    return {"clk": 2100 if kind == AmdSmiClkType.GFX else 1300, "min_clk": 132, "max_clk": 2100}


def amdsmi_get_power_info(handle):
    return {"socket_power": 750, "current_socket_power": 750, "average_socket_power": "N/A"}


def amdsmi_get_temp_metric(handle, sensor, metric):
    return 58


def amdsmi_get_gpu_metrics_info(handle):
    _metrics["ppt_residency_acc"] += 1
    return dict(_metrics)


def amdsmi_get_gpu_compute_partition(handle):
    return "SPX"


def amdsmi_get_gpu_memory_partition(handle):
    return "NPS1"
