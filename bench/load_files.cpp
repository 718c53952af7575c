// A file of weights beside what `cat` takes for it, each in a process of its own, and the most memory of that process:
//   bench_load_files [folder] [MB]      writes <MB> of safetensors (1,000) there, and measures
// Kaon's processes load the file and look at every byte: as arrays, and in a net that takes them as its parameters.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "kaon/bench/common.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/interchange/load_weights.h"
#include "kaon/interchange/safetensors.h"
#include "kaon/ops/functions.h"

using namespace kaon;
namespace fs = std::filesystem;
namespace nn = kaon::gluon::nn;

namespace {

constexpr int64_t width = 2048;

// Reads every byte once, by an operator on Kaon's threads.
void look(const NDArray& array) { nd.max(array).wait_to_read(); }

struct Process {
  double seconds, megabytes;
};

// Runs `work` in a child, which says how long it took and what it held at most.
template <class Work>
Process in_child(Work work) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  if (const pid_t child = ::fork(); child == 0) {
    Process result{};
    result.seconds = bench::seconds(work);
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    result.megabytes = double(usage.ru_maxrss) / 1024;
    if (::write(ends[1], &result, sizeof result) != ssize_t(sizeof result)) std::abort();
    ::_exit(0);
  } else {
    ::close(ends[1]);
    Process result{};
    if (::read(ends[0], &result, sizeof result) != ssize_t(sizeof result)) std::abort();
    ::close(ends[0]);
    int status;
    ::waitpid(child, &status, 0);
    return result;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path folder = argc > 1 ? argv[1] : fs::temp_directory_path().string();
  const int64_t megabytes = argc > 2 ? std::atoll(argv[2]) : 1000;
  const int64_t layers = megabytes * 1000 * 1000 / (width * width * 4);
  const fs::path file = folder / "kaon_bench.safetensors";
  in_child([&] {
    NamedArrays arrays;
    const NDArray weight = nd.random_normal({width, width}), bias = nd.zeros({width});
    for (int64_t i = 0; i < layers; ++i) {
      arrays.emplace_back(fmt::format("{}.weight", i), weight);
      arrays.emplace_back(fmt::format("{}.bias", i), bias);
    }
    safetensors::save(file, arrays);
  });
  const auto size = double(fs::file_size(file)) / 1e6;
  fmt::print("{:.0f} MB, {} tensors, in the system's cache\n", size, 2 * layers);
  std::vector<double> cat, arrays, net;
  double arrays_mb = 0, net_mb = 0, none_mb = 0;
  for (int i = 0; i < 7; ++i) {
    cat.push_back(in_child([&] {
                    if (std::system(fmt::format("cat '{}' > /dev/null", file.string()).c_str()) != 0) std::abort();
                  }).seconds);
    none_mb = in_child([] {}).megabytes;
    const Process a = in_child([&] {
      for (const auto& [name, array] : safetensors::load(file).arrays) look(array);
    });
    const Process n = in_child([&] {
      nn::HybridSequential layer_list;
      for (int64_t k = 0; k < layers; ++k) layer_list.add(nn::Dense(width, {.in_units = width}));
      layer_list.collect_params().set_grad_req(GradReq::null);  // to predict: gradients would be as much memory
      gluon::load_weights(layer_list, file);
      for (const gluon::Parameter& p : layer_list.collect_params()) look(p.data());
    });
    arrays.push_back(a.seconds);
    net.push_back(n.seconds);
    arrays_mb = a.megabytes;
    net_mb = n.megabytes;
  }
  const auto c = bench::summarize(cat), a = bench::summarize(arrays), n = bench::summarize(net);
  fmt::print("cat > /dev/null          {:7.1f} ms (from {:.1f})\n", c.median * 1e3, c.min * 1e3);
  fmt::print(
      "arrays, every byte read  {:7.1f} ms (from {:.1f}), {:.2f} of cat, {:.0f} MB at most ({:.2f} of the file)\n",
      a.median * 1e3, a.min * 1e3, a.median / c.median, arrays_mb, (arrays_mb - none_mb) * 1.048576 / size);
  fmt::print(
      "a net, every byte read   {:7.1f} ms (from {:.1f}), {:.2f} of cat, {:.0f} MB at most ({:.2f} of the file)\n",
      n.median * 1e3, n.min * 1e3, n.median / c.median, net_mb, (net_mb - none_mb) * 1.048576 / size);
  fs::remove(file);
}
