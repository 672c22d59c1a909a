"""Built-in profiles: coefficients fitted to published measurements, each with the error of its fit.

`bench/fit_profiles.py` prints these numbers; the measurements are not part of Headway. Sources: gangs on T4 from the
5,542 placements measured for Pollux, other accelerators from Sia's; parameter servers from the 804 speeds measured for
DL2; one batch divided over A100s from ElasticFlow's tables; loss curves from MLPerf logs (bert, ssd, gnmt, maskrcnn)
and from the validation curves published with Pollux.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway.estimates.models.profiles import AllReduce, Curve, Profile, Servers


def _gang(error: float, curve: Curve, types: tuple[float, float, float, float], form: AllReduce) -> Profile:
    names = ("v100", "a100", "rtx6000", "rtx2080ti")
    return Profile(
        form=form, curve=curve, accelerators={"t4": 1.0, **dict(zip(names, types, strict=True))}, error=error
    )


def _servers(error: float, *coefficients: float, batch: float, inside: float) -> Profile:
    a, b, c, d, e = coefficients
    return Profile(form=Servers(a, b, c, d, e, batch, inside), error=error)


def _divided(error: float, a: float, b: float, d: float) -> Profile:
    return Profile(form=Servers(a, b, 0.0, d, 0.0, 1.0, 1.0), accelerators={"a100": 1.0}, error=error)


def _curve(curve: Curve) -> Profile:
    """A model of which only the loss curve is known; its speed is that of a gang with medium exchange."""
    return Profile(form=_PROFILES["imagenet"].form, curve=curve)


_PROFILES: dict[str, Profile] = {
    "bert": _gang(0.038, Curve(8.057, 1.085, 0.1349), (2.49, 4.41, 2.27, 1.92), AllReduce(
        compute=0.6889, local=0.1514, local_more=0.06612, cross=1.4, cross_more=0.009612, overlap=2.1)),
    "cifar10": _gang(0.044, Curve(22.02, 0.9607, 0.06162), (1.13, 2.86, 1.74, 1.49), AllReduce(
        compute=0.1522, local=0.04086, local_more=0.004745, cross=0.1305, cross_more=0.00265, overlap=2.85)),
    "deepspeech2": _gang(0.059, Curve(29.56, 0.7941, 0.1844), (2.0, 1.34, 1.44, 1.63), AllReduce(
        compute=0.9432, local=0.4742, local_more=0.08462, cross=0.8906, cross_more=0.009187, overlap=3.12)),
    "imagenet": _gang(0.050, Curve(9.302, 1.454, 0.166), (1.67, 2.07, 1.42, 1.28), AllReduce(
        compute=0.371, local=0.08558, local_more=0.0136, cross=0.3097, cross_more=0.006634, overlap=2.69)),
    "ncf": Profile(form=AllReduce(
        compute=0.007233, local=0.002845, local_more=0.001196, cross=0.01437, cross_more=0.0005463, overlap=1.0),
        curve=Curve(56.59, 0.05, 0.8185), error=0.068),
    "yolov3": _gang(0.069, Curve(24.27, 1.676, 0.5177), (1.5, 1.11, 1.62, 0.61), AllReduce(
        compute=0.4032, local=0.04285, local_more=0.07983, cross=0.7198, cross_more=0.01071, overlap=1.08)),
    "resnet-50": _servers(0.066, 0.00394, 0.4178, 0.4213, 0.007373, 0.0, batch=32, inside=0.30),
    "vgg-16": _servers(0.066, 0.01695, 0.5812, 0.8072, 0.1356, 0.0, batch=32, inside=0.54),
    "resnext-110": _servers(0.057, 0.0005393, 0.1561, 0.1104, 0.01991, 0.001166, batch=128, inside=0.94),
    "inception-bn": _servers(0.041, 0.003105, 0.1541, 0.1664, 0.01941, 0.002813, batch=128, inside=0.13),
    "seq2seq": _servers(0.073, 0.001038, 0.05408, 0.02424, 0.01315, 0.0, batch=64, inside=0.66),
    "cnn-text": _servers(0.021, 0.007464, 0.3445, 0.02375, 0.01694, 0.0, batch=50, inside=0.38),
    "dssm": _servers(0.044, 0.00155, 0.1177, 0.0, 0.0073, 0.0002253, batch=256, inside=1.0),
    "wlm": _servers(0.049, 0.0005874, 0.2394, 0.1586, 0.03078, 0.0, batch=160, inside=0.45),
    "gpt2": _divided(0.018, 0.2102, 0.03488, 0.0003965),
    "inception3": _divided(0.024, 0.3275, 0.04974, 0.0004399),
    "resnet50": _divided(0.009, 0.5117, 0.03171, 0.0002159),
    "resnet50_cifar10": _divided(0.006, 0.01915, 0.03077, 0.0008172),
    "vgg16": _divided(0.008, 0.7195, 0.03569, 0.00002978),
}  # fmt: skip
"""By `Job.model`. `inside`: the network's speed across nodes relative to that inside a node, from DL2."""

_PROFILES |= {
    "ssd": _curve(Curve(88.78, 1.05, 0.1703)),
    "gnmt": _curve(Curve(42.08, 1.18, 0.2922)),
    "maskrcnn": _curve(Curve(28.89, 1.445, 0.4233)),
}

BUILT_IN: Mapping[str, Profile] = _PROFILES
