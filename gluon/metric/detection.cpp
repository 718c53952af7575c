#include "kaon/gluon/metric/detection.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "kaon/gluon/metric/internal/metric_node.h"
#include "kaon/ops/functions.h"

namespace kaon::metric {
namespace {

using namespace detail;

struct ClassRecord {
  int64_t objects = 0;                              // that are not difficult
  std::vector<std::pair<double, bool>> detections;  // score, and whether it is right
};
struct Detections : Kept {
  std::map<int64_t, ClassRecord> classes;
};

double overlap(const double* a, const double* b) {
  const double width = std::min(a[2], b[2]) - std::max(a[0], b[0]),
               height = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  if (!(width > 0 && height > 0)) return 0;
  const auto area = [](const double* box) { return (box[2] - box[0]) * (box[3] - box[1]); };
  return width * height / (area(a) + area(b) - width * height);
}

double average_precision(ClassRecord record, bool voc07) {
  auto& found = record.detections;
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<double> recall, precision;
  double right = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    right += found[i].second;
    recall.push_back(right / double(record.objects));
    precision.push_back(right / double(i + 1));
  }
  for (size_t i = precision.size(); i-- > 1;) precision[i - 1] = std::max(precision[i - 1], precision[i]);
  double sum = 0;
  if (voc07) {
    for (int tenth = 0; tenth <= 10; ++tenth) {
      const auto at = std::lower_bound(recall.begin(), recall.end(), tenth / 10.0) - recall.begin();
      if (size_t(at) < recall.size()) sum += precision[size_t(at)] / 11;
    }
  } else {
    for (size_t i = 0; i < recall.size(); ++i) sum += precision[i] * (recall[i] - (i ? recall[i - 1] : 0));
  }
  return sum;
}

struct MeanPrecision : PairRule {
  MeanPrecision(std::string_view name, const VOCMApOptions& o) : PairRule(name), options(o) {
    if (!(o.iou_thresh > 0 && o.iou_thresh <= 1)) {
      throw ValueError(fmt::format("[{}] iou_thresh must be in (0, 1], got {}", name, o.iou_thresh));
    }
  }

  Total score(const NDArray& label, const NDArray& pred) const override {
    const Shape l = label.shape(), p = pred.shape();
    if (l.ndim() != 3 || p.ndim() != 3 || l[0] != p[0] || (l[2] != 5 && l[2] != 6) || p[2] != 6) {
      throw ShapeError(
          fmt::format("[{}] labels (batch, m, 5 or 6) and predictions (batch, n, 6) are needed, got {} and {}", name,
                      l.str(), p.str()));
    }
    auto kept = std::make_shared<Detections>();
    auto body = [=, least = options.iou_thresh](auto in, std::span<double> out) {
      const auto objects = size_t(l[1]), width = size_t(l[2]), found = size_t(p[1]);
      for (size_t i = 0; i < size_t(l[0]); ++i) {
        add_image(*kept, in[0].subspan(i * objects * width, objects * width), width,
                  in[1].subspan(i * found * 6, found * 6), least);
      }
      out[0] = 0;
    };
    const NDArray both[] = {label, pred};
    return {on_host(both, 1, "metric_map", body), 1, kept};
  }

  static void add_image(Detections& all, std::span<const double> objects, size_t width, std::span<const double> found,
                        double least) {
    std::vector<const double*> sorted;
    for (size_t i = 0; i < found.size(); i += 6) {
      if (found[i] >= 0) sorted.push_back(&found[i]);
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const double* a, const double* b) { return a[1] > b[1]; });
    const auto is_difficult = [&](size_t at) { return width == 6 && objects[at + 5] > 0; };
    for (size_t at = 0; at < objects.size(); at += width) {
      if (objects[at] >= 0 && !is_difficult(at)) ++all.classes[int64_t(objects[at])].objects;
    }
    std::vector<bool> is_found(objects.size() / width);
    for (const double* d : sorted) {
      double best = 0;
      size_t best_at = 0;
      for (size_t at = 0; at < objects.size(); at += width) {
        if (objects[at] != d[0]) continue;
        if (const double o = overlap(d + 2, &objects[at + 1]); o > best) best = o, best_at = at;
      }
      const bool hits = best > 0 && best >= least;
      if (hits && is_difficult(best_at)) continue;
      const bool is_right = hits && !is_found[best_at / width];
      if (is_right) is_found[best_at / width] = true;
      all.classes[int64_t(d[0])].detections.emplace_back(d[1], is_right);
    }
  }

  Total add(const Total& a, const Total& b) const override {
    auto kept = std::make_shared<Detections>();
    const NDArray both[] = {a.values, b.values};  // whose operations fill the two records
    auto body = [kept, one = a.kept, other = b.kept](auto, std::span<double> out) {
      *kept = static_cast<const Detections&>(*one);
      for (const auto& [c, record] : static_cast<const Detections&>(*other).classes) {
        ClassRecord& mine = kept->classes[c];
        mine.objects += record.objects;
        mine.detections.insert(mine.detections.end(), record.detections.begin(), record.detections.end());
      }
      out[0] = 0;
    };
    return {on_host(both, 1, "metric_map", body), a.count + b.count, kept};
  }

  std::vector<double> finish(std::span<const double>, const Total& total) const override {
    double sum = 0;
    int classes = 0;
    for (const auto& [c, record] : static_cast<const Detections&>(*total.kept).classes) {
      if (record.objects == 0) continue;
      sum += average_precision(record, options.voc07);
      ++classes;
    }
    return {classes ? sum / classes : std::numeric_limits<double>::quiet_NaN()};
  }

  const VOCMApOptions options;
};

}  // namespace

VOCMApMetric::VOCMApMetric(const VOCMApOptions& options, std::string_view name)
    : EvalMetric(std::make_shared<MeanPrecision>(name, options)) {}

}  // namespace kaon::metric
