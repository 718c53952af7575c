"""Nets of torchvision with random weights, for write_exports.py."""
import torch
from torch import nn

# what the smallest image of a net is, where 64 by 64 does not do or takes long
SIZES = {"alexnet": 224, "inception_v3": 96, "maxvit_t": 224, "vgg": 224, "convnext": 32, "vit_h": 28, "vit": 32, "swin_v2": 64}


def is_like(name, prefix):
    return name == prefix or name.startswith(prefix)


def restless(net):
    """With statistics that are not those of a new net."""
    for m in net.modules():
        if isinstance(m, (nn.BatchNorm2d, nn.BatchNorm3d)):
            m.running_mean.uniform_(-0.1, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    return net


def classifier(name):
    import torchvision

    size = next((s for prefix, s in SIZES.items() if is_like(name, prefix)), 64)
    options = {"weights": None}
    if name in ("googlenet", "inception_v3"):
        options.update(init_weights=False, aux_logits=False)
    if name.startswith("vit"):
        options.update(image_size=size)
    return restless(getattr(torchvision.models, name)(**options)), (torch.randn(2, 3, size, size),)


class Found(nn.Module):
    """Boxes, classes and scores that a detector finds in one image."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image):
        first = self.net([image])[0]
        return tuple(first[k] for k in ("boxes", "labels", "scores"))


def settled(net, images):
    """With the statistics of these images: else numbers grow from layer to layer, and rounding decides what is found."""
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.momentum = None
            m.reset_running_stats()
    net.train()
    with torch.no_grad():
        net(images)
    return net.eval()


def detector(name, size=96, **options):
    import torchvision

    net = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None, num_classes=5, **options)
    settled(net.backbone, torch.randn(4, 3, 128, 128))
    return Found(net), (torch.rand(3, size, size),)


class Out(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)["out"]


def segmenter(name):
    import torchvision

    net = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=4)
    return Out(restless(net)), (torch.randn(2, 3, 64, 64),)


def video(name, frames=8, size=56):
    import torchvision

    return restless(getattr(torchvision.models.video, name)(weights=None, num_classes=7)), (torch.randn(1, 3, frames, size, size),)


SIZED = dict(min_size=96, max_size=96)

NETS = {
    "fasterrcnn_mobilenet": lambda: detector("fasterrcnn_mobilenet_v3_large_320_fpn", **SIZED, rpn_pre_nms_top_n_test=50, rpn_post_nms_top_n_test=20),
    "fasterrcnn_resnet50": lambda: detector("fasterrcnn_resnet50_fpn", **SIZED, rpn_pre_nms_top_n_test=50, rpn_post_nms_top_n_test=20),
    "retinanet": lambda: detector("retinanet_resnet50_fpn", **SIZED, score_thresh=0.005),
    "fcos": lambda: detector("fcos_resnet50_fpn", **SIZED, score_thresh=0.005),
    "ssd300": lambda: detector("ssd300_vgg16", 300),
    "fcn_resnet50": lambda: segmenter("fcn_resnet50"),
    "deeplabv3_mobilenet": lambda: segmenter("deeplabv3_mobilenet_v3_large"),
    "lraspp": lambda: segmenter("lraspp_mobilenet_v3_large"),
    "r3d_18": lambda: video("r3d_18"),
    "r2plus1d_18": lambda: video("r2plus1d_18"),
    "s3d": lambda: video("s3d", 16, 224),
    "swin3d_t": lambda: video("swin3d_t", 4, 64),
}


def all_classifiers():
    import torchvision

    return torchvision.models.list_models(module=torchvision.models)
