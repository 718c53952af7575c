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
    """Boxes, classes and scores, and what else a detector finds in one image."""

    def __init__(self, net, keys=()):
        super().__init__()
        self.net, self.keys = net, ("boxes", "labels", "scores", *keys)

    def forward(self, image):
        first = self.net([image])[0]
        return tuple(first[k] for k in self.keys)


class Heads(nn.Module):
    """What a detector computes before it chooses boxes: this torch.export can do too."""

    def __init__(self, net):
        super().__init__()
        self.backbone, self.head = net.backbone, net.head

    def forward(self, images):
        found = self.head(list(self.backbone(images).values()))
        return tuple(found[k] for k in sorted(found))


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


def detector(name, size=96, keys=(), **options):
    import torchvision

    net = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None, num_classes=5, **options)
    settled(net.backbone, torch.randn(4, 3, max(128, size), max(128, size)))
    if "masks" in keys:  # smooth masks: rounding of boxes, times large weights, would be all that is compared
        net.roi_heads.mask_predictor.mask_fcn_logits.weight.data.mul_(0.01)
    return Found(net, keys), (torch.rand(3, size, size),)


def heads(name, size=96, **options):
    return Heads(detector(name, size, **options)[0].net), (torch.rand(2, 3, size, size),)


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


class Flow(nn.Module):
    """Optical flow of two images by RAFT."""

    def __init__(self, name):
        super().__init__()
        import torchvision

        self.net = restless(getattr(torchvision.models.optical_flow, name)(weights=None))

    def forward(self, a, b):
        return self.net(a, b, num_flow_updates=2)[-1]


class Both(nn.Module):
    """A segmenter's result and that of its auxiliary classifier."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        found = self.net(x)
        return found["out"], found["aux"]


def with_auxiliary(name):
    import torchvision

    net = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=4, aux_loss=True)
    return Both(restless(net)), (torch.randn(2, 3, 64, 64),)


class Features(nn.Module):
    """Pyramids of a classifier's features."""

    def __init__(self):
        super().__init__()
        from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

        self.net = restless(resnet_fpn_backbone(backbone_name="resnet18", weights=None))

    def forward(self, x):
        return tuple(self.net(x).values())


class Regions(nn.Module):
    """Operators of torchvision on boxes."""

    def forward(self, x, boxes, scores):
        from torchvision import ops

        rois = torch.cat([torch.zeros(boxes.shape[0], 1), boxes], 1)
        kept = ops.nms(boxes, scores, 0.3)
        return (kept, ops.roi_align(x, [boxes], (3, 4), 0.5, 2), ops.roi_align(x, rois, 2, 1.0, -1, True), ops.roi_pool(x, rois, (2, 3), 0.5),
                ops.box_iou(boxes, boxes), ops.clip_boxes_to_image(boxes, (10, 10)), ops.box_area(boxes), ops.batched_nms(boxes, scores, torch.arange(boxes.shape[0]) % 2, 0.3))


def boxes(n=12):
    corner = torch.rand(n, 2) * 9
    return torch.cat([corner, corner + torch.rand(n, 2) * 6 + 1], 1)


class Deformed(nn.Module):
    def __init__(self):
        super().__init__()
        from torchvision.ops import DeformConv2d

        self.net = DeformConv2d(4, 6, 3, padding=1)

    def forward(self, x, offset, mask):
        return self.net(x, offset, mask)


def auxiliary_classifier(name, size):
    import torchvision

    return restless(getattr(torchvision.models, name)(weights=None, init_weights=False, aux_logits=True)), (torch.randn(2, 3, size, size),)


def video(name, frames=8, size=56):
    import torchvision

    return restless(getattr(torchvision.models.video, name)(weights=None, num_classes=7)), (torch.randn(1, 3, frames, size, size),)


SIZED = dict(min_size=96, max_size=96)
FEW = dict(detections_per_img=20, topk_candidates=30)  # of hundreds of alike scores rounding would decide the order

NETS = {
    "fasterrcnn_mobilenet": lambda: detector("fasterrcnn_mobilenet_v3_large_320_fpn", **SIZED, rpn_pre_nms_top_n_test=50, rpn_post_nms_top_n_test=20),
    "fasterrcnn_resnet50": lambda: detector("fasterrcnn_resnet50_fpn", **SIZED, rpn_pre_nms_top_n_test=50, rpn_post_nms_top_n_test=20),
    "retinanet": lambda: detector("retinanet_resnet50_fpn", **SIZED, score_thresh=0.005, **FEW),
    "fcos": lambda: detector("fcos_resnet50_fpn", **SIZED, score_thresh=0.005, **FEW),
    "ssd300": lambda: detector("ssd300_vgg16", 300, **FEW),
    "fcn_resnet50": lambda: segmenter("fcn_resnet50"),
    "deeplabv3_mobilenet": lambda: segmenter("deeplabv3_mobilenet_v3_large"),
    "lraspp": lambda: segmenter("lraspp_mobilenet_v3_large"),
    "fcn_resnet101": lambda: segmenter("fcn_resnet101"),
    "deeplabv3_resnet50": lambda: segmenter("deeplabv3_resnet50"),
    "deeplabv3_auxiliary": lambda: with_auxiliary("deeplabv3_mobilenet_v3_large"),
    "fcn_auxiliary": lambda: with_auxiliary("fcn_resnet50"),
    "maskrcnn": lambda: detector("maskrcnn_resnet50_fpn", keys=("masks",), **SIZED, rpn_pre_nms_top_n_test=50, rpn_post_nms_top_n_test=20),
    "maskrcnn_v2": lambda: detector("maskrcnn_resnet50_fpn_v2", keys=("masks",), **SIZED, rpn_pre_nms_top_n_test=50, rpn_post_nms_top_n_test=20),
    "keypointrcnn": lambda: detector("keypointrcnn_resnet50_fpn", keys=("keypoints", "keypoints_scores"), **SIZED, rpn_pre_nms_top_n_test=50, rpn_post_nms_top_n_test=20),
    "fasterrcnn_v2": lambda: detector("fasterrcnn_resnet50_fpn_v2", **SIZED, rpn_pre_nms_top_n_test=50, rpn_post_nms_top_n_test=20),
    "retinanet_v2": lambda: detector("retinanet_resnet50_fpn_v2", **SIZED, score_thresh=0.005, **FEW),
    "ssdlite": lambda: detector("ssdlite320_mobilenet_v3_large", 320, **FEW),
    "retinanet_heads": lambda: heads("retinanet_resnet50_fpn"),
    "fcos_heads": lambda: heads("fcos_resnet50_fpn"),
    "ssd300_heads": lambda: heads("ssd300_vgg16", 300),
    "pyramid": lambda: (Features(), (torch.randn(2, 3, 64, 96),)),
    "regions": lambda: (Regions(), (torch.randn(1, 2, 8, 8), boxes(), torch.rand(12))),
    "deformed": lambda: (Deformed(), (torch.randn(2, 4, 6, 7), torch.randn(2, 18, 6, 7), torch.rand(2, 9, 6, 7))),
    "googlenet_auxiliary": lambda: auxiliary_classifier("googlenet", 64),
    "inception_auxiliary": lambda: auxiliary_classifier("inception_v3", 96),
    "raft_small": lambda: (Flow("raft_small"), (torch.rand(1, 3, 128, 128) * 2 - 1, torch.rand(1, 3, 128, 128) * 2 - 1)),
    "raft_large": lambda: (Flow("raft_large"), (torch.rand(1, 3, 128, 128) * 2 - 1, torch.rand(1, 3, 128, 128) * 2 - 1)),
    "mc3_18": lambda: video("mc3_18"),
    "mvit_v1_b": lambda: video("mvit_v1_b", 16, 224),
    "mvit_v2_s": lambda: video("mvit_v2_s", 16, 224),
    "r3d_18": lambda: video("r3d_18"),
    "r2plus1d_18": lambda: video("r2plus1d_18"),
    "s3d": lambda: video("s3d", 16, 224),
    "swin3d_t": lambda: video("swin3d_t", 4, 64),
}


# where PyTorch's own results have larger errors beside those in float64: masks end sharply, 1.2e-4
TOLERANCES = {"maskrcnn": 5e-4, "maskrcnn_v2": 5e-4, "keypointrcnn": 5e-4}


def all_classifiers():
    import torchvision

    return torchvision.models.list_models(module=torchvision.models)
