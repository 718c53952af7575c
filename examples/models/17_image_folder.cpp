// Training on a folder of images, a folder a class, by an Estimator: augmented samples, validation after each epoch, an
// end when that has not become better, and a checkpoint of everything after each epoch. A second run is broken off in
// the middle of an epoch, and a third goes on from the second one's checkpoint: it ends with parameters of the same
// bits as the first. Prints the figures of each epoch; ends with 1 if any bit differs, or nothing was learned.
// An argument is another folder, with folders train and validation; else one is written, of handwritten digits.
#include <fmt/format.h>
#include <kaon/gluon/data/record_io.h>
#include <kaon/gluon/estimator/estimator.h>
#include <kaon/gluon/estimator/handlers.h>
#include <kaon/kaon.h>

#include <filesystem>
#include <fstream>

using namespace kaon;
using namespace kaon::gluon::data;
namespace fs = std::filesystem;
namespace nn = kaon::gluon::nn;
namespace transforms = kaon::gluon::data::vision::transforms;

// root/<digit>/<number>.png, and every third one as a JPEG.
void write_digits(const fs::path& root, bool train, int64_t count) {
  const Dataset digits = vision::MNIST(KAON_DATA_DIR "/mnist-10k", train).take(count);
  for (int64_t i = 0; i < digits.size(); ++i) {
    const Sample s = digits.get(i);
    const bool is_png = i % 3 != 0;
    const fs::path folder = root / std::to_string(*s.label.as<int32_t>());
    fs::create_directories(folder);
    const std::string record = recordio::pack_img({}, s.data, {.is_png = is_png});
    std::ofstream(folder / fmt::format("{:05}.{}", i, is_png ? "png" : "jpg"), std::ios::binary)
        << recordio::unpack(record).data;
  }
}

DataLoader images(const fs::path& root, bool train) {
  const vision::ImageFolderDataset folder(root, {.flag = 0});  // grey
  const transforms::Compose augment({transforms::RandomResizedCrop(28, {.scale = {0.7, 1}, .ratio = {0.8, 1.25}}),
                                     transforms::RandomBrightness(0.3), transforms::RandomContrast(0.3),
                                     transforms::ToTensor(), transforms::RandomRotation(-10, 10)});
  const transforms::Compose plain({transforms::Resize(28), transforms::ToTensor()});
  return DataLoader(folder.transform_first(train ? augment : plain),
                    {.batch_size = 50, .shuffle = train, .seed = 1, .skip_corrupt = true});
}

// Breaks off as a power cut would: by an exception, in the middle of an epoch.
struct PowerCut final : gluon::EventHandler {
  Task<void> batch_end(gluon::Estimator& e, const Batch&, const gluon::BatchResult&) override {
    if (e.epoch() == 1 && e.batch() == 1) throw std::runtime_error("the power is cut");
    co_return;
  }
};

struct Run {
  explicit Run(int64_t classes)
      : net(nn::Conv2D(8, {.kernel_size = {5, 5}, .activation = "relu"}), nn::MaxPool2D(),
            nn::Conv2D(16, {.kernel_size = {5, 5}, .activation = "relu"}), nn::MaxPool2D(), nn::Dropout(0.2),
            nn::Dense(32, {.activation = "relu"}), nn::Dense(classes)),
        trainer(net.collect_params(), optimizer::Adam({.learning_rate = 3e-3})),
        estimator(net, gluon::loss::SoftmaxCrossEntropyLoss(), trainer, {metric::Accuracy()}, {accuracy}) {
    random::seed(7);  // of the first parameters, then of dropout
    net.initialize(init::Xavier());
    net.hybridize({.exact = true});  // the bits do not depend on plans
  }

  // Goes on where the checkpoints in `folder` end. For `epochs`, those before included, or until the accuracy has not
  // become better for two of them.
  Task<void> train(DataLoader train, DataLoader validation, fs::path folder, int64_t epochs, bool breaks_off) {
    const auto checkpoints = std::make_shared<gluon::CheckpointHandler>(folder);
    checkpoints->save_best(accuracy, gluon::Better::higher);
    estimator.add_handler(std::make_shared<gluon::ValidationHandler>(validation));
    estimator.add_handler(std::make_shared<gluon::LoggingHandler>());
    estimator.add_handler(std::make_shared<gluon::EarlyStoppingHandler>(accuracy, gluon::Better::higher, 1));
    estimator.add_handler(checkpoints);
    if (breaks_off) estimator.add_handler(std::make_shared<PowerCut>());
    if (checkpoints->resume(estimator)) fmt::print("goes on after {} epochs\n", estimator.epoch());
    co_await estimator.fit(train, {.epochs = epochs});
  }

  metric::Accuracy accuracy;
  nn::HybridSequential net;
  gluon::Trainer trainer;
  gluon::Estimator estimator;
};

Task<void> example(fs::path root) {
  fs::remove_all("checkpoints");
  const DataLoader train = images(root / "train", true), validation = images(root / "validation", false);
  const auto classes = int64_t(vision::ImageFolderDataset(root / "train").synsets().size());
  fmt::print("{} images of {} classes\n", train.dataset().size(), classes);

  Run whole(classes);
  co_await whole.train(train, validation, "checkpoints/whole", 30, false);
  const int64_t epochs = whole.estimator.epoch();
  fmt::print("{} {} epochs\n\n", whole.estimator.is_stopped() ? "stopped early, after" : "ended after", epochs);

  bool was_cut = false;
  Run cut(classes);
  try {
    co_await cut.train(train, validation, "checkpoints/cut", epochs, true);
  } catch (const std::runtime_error& e) {
    fmt::print("{}\n", e.what());
    was_cut = true;
  }
  Run resumed(classes);
  co_await resumed.train(train, validation, "checkpoints/cut", epochs, false);

  const auto expected = whole.net.collect_params(), got = resumed.net.collect_params();
  bool is_same = was_cut;
  for (size_t i = 0; i < expected.size(); ++i) {
    is_same = is_same && expected[i].data().asvector<float>() == got[i].data().asvector<float>();
  }
  const double accuracy = whole.accuracy.get().second;
  fmt::print("\nthe parameters are {}; accuracy {:.3f}\n", is_same ? "the same" : "others", accuracy);
  if (!is_same || accuracy < 0.8) throw Error("the run that went on is another one, or nothing was learned");
}

int main(int argc, char** argv) {
  fs::path root = "digits";
  if (argc > 1) {
    root = argv[1];
  } else if (!fs::exists(root / "validation")) {
    write_digits(root / "train", true, 2000);
    write_digits(root / "validation", false, 500);
  }
  return run_main(example(root));
}
