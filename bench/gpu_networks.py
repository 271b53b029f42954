"""Networks that bench/gpu_models measures: torchvision's, and small likenesses of what people run on video. All are made with
random weights; what counts is their layers."""
import torch
from torch import nn
from torch.nn import functional as F

SIDE = {"resnet50": (224, 224), "mobilenetv3": (224, 224), "vit-b32": (224, 224), "arcface-r50": (112, 112), "yolov8n-seg": (640, 640),
        "rvm-mobilenetv3": (1088, 1920), "generator": (256, 256)}


def side(name):
    """Height and width of a network's input."""
    return SIDE.get(name, (512, 512))


def conv(i, o, k=1, s=1, act=nn.ReLU, groups=1):
    return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, groups=groups, bias=False), nn.BatchNorm2d(o), act())


class UNet(nn.Module):
    """Four levels with transposed convolutions."""

    def __init__(self):
        super().__init__()
        c = [64, 128, 256, 512]

        def two(i, o):
            return nn.Sequential(conv(i, o, 3), conv(o, o, 3))
        self.down = nn.ModuleList([two(i, o) for i, o in zip([3] + c, c)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(o, i, 2, 2) for i, o in zip(c, c[1:])])
        self.join = nn.ModuleList([two(2 * i, i) for i in c[:-1]])
        self.end = nn.Conv2d(c[0], 2, 1)

    def forward(self, x):
        skips = []
        for i, d in enumerate(self.down):
            x = d(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for i in (2, 1, 0):
            x = self.join[i](torch.cat([skips[i], self.up[i](x)], 1))
        return self.end(x)


class C2f(nn.Module):
    def __init__(self, i, o, n, add):
        super().__init__()
        self.first, self.end, self.add = conv(i, o, act=nn.SiLU), conv((2 + n) * (o // 2), o, act=nn.SiLU), add
        self.inner = nn.ModuleList([nn.Sequential(conv(o // 2, o // 2, 3, act=nn.SiLU), conv(o // 2, o // 2, 3, act=nn.SiLU)) for _ in range(n)])

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for m in self.inner:
            parts.append(parts[-1] + m(parts[-1]) if self.add else m(parts[-1]))
        return self.end(torch.cat(parts, 1))


class Yolo(nn.Module):
    """Backbone, neck and heads of a small one-stage detector with masks: boxes, 80 classes, 32 mask coefficients, prototypes."""

    def __init__(self):
        super().__init__()

        def c(i, o, k=3, s=2):
            return conv(i, o, k, s, nn.SiLU)
        self.stem = nn.Sequential(c(3, 16), c(16, 32), C2f(32, 32, 1, True), c(32, 64), C2f(64, 64, 2, True))
        self.p4, self.p5 = nn.Sequential(c(64, 128), C2f(128, 128, 2, True)), nn.Sequential(c(128, 256), C2f(256, 256, 1, True))
        self.spp_in, self.spp_out = c(256, 128, 1, 1), c(512, 256, 1, 1)
        self.n4, self.n3 = C2f(384, 128, 1, False), C2f(192, 64, 1, False)
        self.d4, self.m4, self.d5, self.m5 = c(64, 64), C2f(192, 128, 1, False), c(128, 128), C2f(384, 256, 1, False)
        widths = [64, 128, 256]

        def head(between, out):
            return nn.ModuleList([nn.Sequential(c(w, between, 3, 1), c(between, between, 3, 1), nn.Conv2d(between, out, 1)) for w in widths])
        self.box, self.kind, self.mask = head(64, 64), head(80, 80), head(32, 32)
        self.proto = nn.Sequential(c(64, 64, 3, 1), nn.ConvTranspose2d(64, 64, 2, 2), c(64, 64, 3, 1), c(64, 32, 1, 1))

    def forward(self, x):
        p3 = self.stem(x)
        p4 = self.p4(p3)
        y = self.spp_in(self.p5(p4))
        pools = [y]
        for _ in range(3):
            pools.append(F.max_pool2d(pools[-1], 5, 1, 2))
        p5 = self.spp_out(torch.cat(pools, 1))
        n4 = self.n4(torch.cat([F.interpolate(p5, scale_factor=2.0), p4], 1))
        n3 = self.n3(torch.cat([F.interpolate(n4, scale_factor=2.0), p3], 1))
        m4 = self.m4(torch.cat([self.d4(n3), n4], 1))
        m5 = self.m5(torch.cat([self.d5(m4), p5], 1))
        box, kind, mask = ([h(v).flatten(2) for h, v in zip(heads, (n3, m4, m5))] for heads in (self.box, self.kind, self.mask))
        box = torch.cat(box, 2)
        b, _, n = box.shape
        box = (box.view(b, 4, 16, n).softmax(2) * torch.arange(16, device=x.device, dtype=x.dtype).view(1, 1, 16, 1)).sum(2)
        return torch.cat([box, torch.cat(kind, 2).sigmoid(), torch.cat(mask, 2)], 1), self.proto(n3)


class Gru(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gates, self.new = nn.Conv2d(2 * c, 2 * c, 3, padding=1), nn.Conv2d(2 * c, c, 3, padding=1)

    def forward(self, x, h):
        r, z = torch.sigmoid(self.gates(torch.cat([x, h], 1))).chunk(2, 1)
        new = torch.tanh(self.new(torch.cat([x, r * h], 1)))
        return (1 - z) * h + z * new


class Matting(nn.Module):
    """A recurrent matting network on MobileNetV3-Large: a quarter of the picture through the encoder, a decoder with gated
    units, and the alpha refined at full size."""

    def __init__(self):
        super().__init__()
        import torchvision
        f = torchvision.models.mobilenet_v3_large(weights=None).features
        self.f = nn.ModuleList([f[:2], f[2:4], f[4:7], f[7:13], f[13:]])
        self.low, self.pool = conv(960, 128), nn.Sequential(nn.Conv2d(960, 128, 1, bias=False), nn.Sigmoid())
        self.up = nn.ModuleList([conv(128 + 40 + 3, 80, 3), conv(80 + 24 + 3, 40, 3), conv(40 + 16 + 3, 32, 3)])
        self.gru = nn.ModuleList([Gru(40), Gru(20), Gru(16)])
        self.end = nn.Sequential(conv(32 + 3, 16, 3), conv(16, 16, 3), nn.Conv2d(16, 4, 1))
        self.refine = nn.Sequential(conv(8, 16), conv(16, 16), nn.Conv2d(16, 4, 1))

    def forward(self, full):
        x = F.interpolate(full, scale_factor=0.25, mode="bilinear", align_corners=False)
        steps, y = [], x
        for f in self.f:
            y = f(y)
            steps.append(y)
        y = self.low(y) * self.pool(y.mean((2, 3), keepdim=True))
        small = [F.avg_pool2d(x, 2), F.avg_pool2d(x, 4), F.avg_pool2d(x, 8)]
        for up, gru, skip, picture in zip(self.up, self.gru, (steps[2], steps[1], steps[0]), small[::-1]):
            y = up(torch.cat([F.interpolate(y, size=skip.shape[2:], mode="bilinear", align_corners=False), skip, picture], 1))
            a, b = y.chunk(2, 1)
            y = torch.cat([a, gru(b, 0.5 * a)], 1)
        y = self.end(torch.cat([F.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False), x], 1))
        y = F.interpolate(y, scale_factor=4.0, mode="bilinear", align_corners=False)
        return torch.clamp(self.refine(torch.cat([full, y, full.mean(1, keepdim=True)], 1)), 0, 1)


class Face(nn.Module):
    """An improved ResNet of 50 layers with an embedding of 512 numbers, as face recognition has it."""

    def __init__(self):
        super().__init__()

        class Block(nn.Module):
            def __init__(self, i, o, s):
                super().__init__()
                self.inner = nn.Sequential(nn.BatchNorm2d(i), nn.Conv2d(i, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o), nn.PReLU(o),
                                           nn.Conv2d(o, o, 3, s, 1, bias=False), nn.BatchNorm2d(o))
                self.short = nn.Sequential(nn.Conv2d(i, o, 1, s, bias=False), nn.BatchNorm2d(o)) if s > 1 else nn.Identity()

            def forward(self, x):
                return self.inner(x) + self.short(x)
        layers, width = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.PReLU(64)], 64
        for o, n in ((64, 3), (128, 4), (256, 14), (512, 3)):
            layers += [Block(width if k == 0 else o, o, 2 if k == 0 else 1) for k in range(n)]
            width = o
        self.body = nn.Sequential(*layers, nn.BatchNorm2d(512), nn.Flatten(), nn.Linear(512 * 7 * 7, 512), nn.BatchNorm1d(512))

    def forward(self, x):
        return self.body(x)


class Generator(nn.Module):
    """Warps a volume of features by a flow in three dimensions and paints a picture of it, as face animation does."""

    def __init__(self):
        super().__init__()

        def conv3(i, o):
            return nn.Sequential(nn.Conv3d(i, o, 3, padding=1, bias=False), nn.BatchNorm3d(o), nn.ReLU())
        self.first = nn.Sequential(conv(3, 64, 7), conv(64, 128, 3, 2), conv(128, 256, 3, 2), nn.Conv2d(256, 512, 1))
        self.volume = nn.ModuleList([nn.Sequential(conv3(32, 32), nn.Conv3d(32, 32, 3, padding=1)) for _ in range(4)])
        self.flow = nn.Sequential(conv3(32, 32), nn.Conv3d(32, 3, 7, padding=3), nn.Tanh())
        self.mid = nn.Sequential(conv(512, 256), conv(256, 256, 3), conv(256, 256, 3))
        self.up = nn.Sequential(nn.Upsample(scale_factor=2), conv(256, 128, 3), nn.Upsample(scale_factor=2), conv(128, 64, 3),
                                nn.Conv2d(64, 3, 7, padding=3), nn.Sigmoid())

    def forward(self, x):
        v = self.first(x)
        b, _, h, w = v.shape
        v = v.view(b, 32, 16, h, w)
        for m in self.volume:
            v = v + m(v)
        grid = self.flow(v).permute(0, 2, 3, 4, 1)
        v = F.grid_sample(v, grid, align_corners=False)
        return self.up(self.mid(v.reshape(b, 512, h, w)))


def made(name):
    import torchvision
    models, seg = torchvision.models, torchvision.models.segmentation
    make = {
        "deeplabv3-resnet101": lambda: seg.deeplabv3_resnet101(weights=None, weights_backbone=None),
        "deeplabv3-resnet50": lambda: seg.deeplabv3_resnet50(weights=None, weights_backbone=None),
        "lraspp": lambda: seg.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None),
        "resnet50": lambda: models.resnet50(weights=None),
        "mobilenetv3": lambda: models.mobilenet_v3_large(weights=None),
        "vit-b32": lambda: models.vit_b_32(weights=None),
        "unet": UNet, "yolov8n-seg": Yolo, "rvm-mobilenetv3": Matting, "arcface-r50": Face, "generator": Generator,
    }
    net = make[name]()
    if name == "vit-b32": # its last layer is made of zeros
        nn.init.normal_(net.heads.head.weight, std=0.02)
    return net
