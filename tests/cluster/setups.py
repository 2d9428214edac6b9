"""Settings of a node that change who computes, never what is written: what each OSD is started with under fire."""

import dataclasses
import os

# Plans of tests/drivers/fault (its language: plan.hpp): errors that end a context and others, memory that is not there, a
# device that is lost, kernels that hang for good or write late, everything slow, kernels that cannot be loaded.
FAULT_PLANS = [
    "launch:every=50:CUDA_ERROR_LAUNCH_FAILED;cuStreamQuery:every=300:slow=20ms",
    "cuMemAlloc:p=0.2:CUDA_ERROR_OUT_OF_MEMORY;cuMemHostAlloc:p=0.2:CUDA_ERROR_OUT_OF_MEMORY;launch:every=90:700",
    "launch:every=40:lost=3s",
    "launch:every=60:hang=3s",
    "launch:every=60:hang",
    "cuda:p=0.002:CUDA_ERROR_UNKNOWN",
    "cuModuleLoadData:p=0.02:CUDA_ERROR_INVALID_IMAGE",
]
WRONG_BYTES = "launch:p=0.05:wrong"  # only where every result is validated


@dataclasses.dataclass(frozen=True)
class Setup:
    name: str
    env: dict
    faults: bool = False  # whether the device is made to fail


def device_env(*directories):
    """For a device in the libraries of these directories, the first in front; the machine's own if there are none."""
    found = [str(directory) for directory in directories if directory]
    if not found:
        return {}
    # An emulated device is slow, and the machine busy: only a fault that was made may end a wait.
    return {"LD_LIBRARY_PATH": ":".join(found + list(filter(None, [os.environ.get("LD_LIBRARY_PATH")]))),
            "EC_CUDA_DEADLINE_MS": "60000"}


def setups(options):
    """All that this machine can have. Of the options: `driver`, directory of a libcuda.so.1 to take; `gpu`, there is a
    real one; `preload`, the library; `fault_driver`, directory of tests/drivers/fault; `faults`, plans for it."""
    has_device = options.driver or options.gpu
    device = device_env(options.driver)
    absent = {"CUDA_VISIBLE_DEVICES": ""} if options.gpu else {}
    pinned = {"LD_PRELOAD": str(options.preload), "EC_CUDA_PINNED_BYTES": "128M"}
    found = [Setup("auto", {}), Setup("cpu", {"EC_CUDA_BACKEND": "cpu"}), Setup("isal", {"EC_CUDA_BACKEND": "isal"}),
             Setup("x86", {"EC_CUDA_BACKEND": "x86"}), Setup("reference", {"EC_CUDA_BACKEND": "reference"}),
             Setup("gpu without one", {**absent, "EC_CUDA_BACKEND": "gpu", "EC_CUDA_RETRY_S": "1"})]
    if options.preload:
        found.append(Setup("preload", pinned))
    if has_device:
        found += [Setup("gpu", {**device, "EC_CUDA_BACKEND": "gpu", "EC_CUDA_STAGING_BYTES": "16M"}),
                  Setup("auto, threshold 64K", {**device, "EC_CUDA_THRESHOLD": "64K"})]
        if options.preload:
            found.append(Setup("preload, threshold 4K", {**device, **pinned, "EC_CUDA_THRESHOLD": "4K"}))
    by_name = {setup.name: setup for setup in found}
    found += [Setup(f"{name}, validate {value}", {**by_name[name].env, "EC_CUDA_VALIDATE": value})
              for name, value in (("auto", "off"), ("x86", "always"), ("gpu", "sample:10")) if name in by_name]
    return found + fault_setups(options)


def adopted(found, directory):
    """The same on OSDs that take their plugins from that directory, as often as OSDs with Ceph's own."""
    return [Setup(f"adopted, {setup.name}", {**setup.env, "CEPH_ARGS": f"--erasure-code-dir={directory}"}, setup.faults)
            for setup in found] + [Setup("stock plugins", {})] * len(found)


def fault_setups(options):
    if not options.fault_driver:
        return []
    env = {**device_env(options.fault_driver, options.driver), "EC_CUDA_BACKEND": "gpu",
           "EC_CUDA_DEADLINE_MS": "1000", "EC_CUDA_RETRY_S": "1"}
    found = [Setup(f"faults {plan}", {**env, "EC_FAULTS": plan}, faults=True) for plan in options.faults or FAULT_PLANS]
    if not options.faults:
        found.append(Setup(f"faults {WRONG_BYTES}, validate always",
                          {**env, "EC_FAULTS": WRONG_BYTES, "EC_CUDA_VALIDATE": "always"}, faults=True))
    return found
