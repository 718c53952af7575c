// How many images a second does a loader give? JPEG files of a folder of classes, decoded, cut and resized to 224 x 224
// at random, mirrored, with other colours, normalised, in batches of 32, with 1 and 2 workers; and each part by itself
// on one thread. bench/peers_data has the same by PyTorch's DataLoader and Pillow.
//   bench_data FOLDER
#include "kaon/bench/common.h"
#include "kaon/engine/engine.h"
#include "kaon/gluon/data/data_loader.h"
#include "kaon/gluon/data/vision.h"

using namespace kaon;
using namespace kaon::gluon::data;
namespace transforms = kaon::gluon::data::vision::transforms;

namespace {

using transforms::Compose;

// Images a second.
double rate(int64_t images, double seconds) { return double(images) / seconds; }

double loader_rate(const Dataset& dataset, int workers) {
  Engine engine({.threads = 1, .io_threads = workers});
  EngineScope scope(engine);
  int64_t images = 0;
  const double seconds = bench::seconds([&] {
    for (Batch& batch : DataLoader(dataset, {.batch_size = 32, .shuffle = true, .workers = workers}).sync()) {
      images += batch.size();
    }
  });
  return rate(images, seconds);
}

double transform_rate(const std::vector<HostTensor>& images, const transforms::Transform& transform) {
  double checksum = 0;
  const double seconds = bench::seconds([&] {
    for (size_t i = 0; i < images.size(); ++i) {
      SampleRandom random(0, 0, int64_t(i));
      checksum += double(transform(images[i], random).size());
    }
  });
  return checksum > 0 ? rate(int64_t(images.size()), seconds) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: bench_data FOLDER, of JPEG files in a folder for each class\n");
    return 2;
  }
  bench::print_machine();
  const vision::ImageFolderDataset files(argv[1]);
  const Dataset augmented =
      files.transform_first(Compose({transforms::RandomResizedCrop(224), transforms::RandomFlipLeftRight(),
                                     transforms::RandomColorJitter(0.4, 0.4, 0.4), transforms::ToTensor(),
                                     transforms::Normalize({0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f})}));
  const auto loaders =
      bench::interleave(3, {[&] { return loader_rate(augmented, 1); }, [&] { return loader_rate(augmented, 2); }});
  bench::print("loader_1_worker", loaders[0], "images/s");
  bench::print("loader_2_workers", loaders[1], "images/s", "loader_1_worker", loaders[0]);

  std::vector<HostTensor> images;
  const auto decode = [&] {
    images.clear();
    const double seconds = bench::seconds([&] {
      for (int64_t i = 0; i < std::min<int64_t>(files.size(), 100); ++i) images.push_back(files.get(i).data);
    });
    return rate(int64_t(images.size()), seconds);
  };
  const std::vector<std::pair<std::string, transforms::Transform>> parts{
      {"random_resized_crop", transforms::RandomResizedCrop(224)},
      {"resize_256", transforms::Resize(256, {.keep_ratio = true})},
      {"color_jitter", transforms::RandomColorJitter(0.4, 0.4, 0.4)},
      {"hue", transforms::RandomHue(0.1)},
      {"to_tensor", transforms::ToTensor()},
      {"rotate", Compose({transforms::ToTensor(), transforms::Rotate(20)})}};
  std::vector<std::function<double()>> runs{decode};
  for (const auto& [name, transform] : parts) runs.push_back([&] { return transform_rate(images, transform); });
  const auto results = bench::interleave(3, runs);
  bench::print("decode", results[0], "images/s");
  for (size_t i = 0; i < parts.size(); ++i) bench::print(parts[i].first, results[i + 1], "images/s");
}
