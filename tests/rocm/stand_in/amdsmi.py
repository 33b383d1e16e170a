"""Stands in for amd-smi's library beside :mod:`stand_in_hip`: one MI300X, at rest but for its power limit.

Another process computes on it where STAND_IN_OTHER has its number.
"""

import os
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


def amdsmi_get_gpu_enumeration_info(handle):
    return {"hip_id": 0, "hip_uuid": "GPU-de8287300da37c72"}


def amdsmi_get_gpu_process_list(handle):
    others = os.environ.get("STAND_IN_OTHER", "").split()
    return [{"pid": int(pid), "memory_usage": {"gtt_mem": 0, "cpu_mem": 0, "vram_mem": 1 << 30}} for pid in others]


def amdsmi_get_gpu_compute_process_info():
    return [{"process_id": each["pid"]} for each in amdsmi_get_gpu_process_list("gpu")]


def amdsmi_get_gpu_vram_usage(handle):
    return {"vram_total": 196592, "vram_used": 283}


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
