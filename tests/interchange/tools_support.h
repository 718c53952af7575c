// The command-line tools, run as programs, and a net for them.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "kaon/interchange/numpy_files.h"
#include "kaon/tests/interchange/support.h"

#ifdef KAON_TOOLS_DIR

namespace tools_test {

using namespace kaon;
using namespace kaon::test;
namespace nn = kaon::gluon::nn;

struct Ran {
  int status;
  std::string text;  // of both outputs
};

inline Ran run(const std::string& tool, const std::string& arguments) {
  const std::string command = std::string("'") + KAON_TOOLS_DIR + "/kaon-" + tool + "' " + arguments + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string text;
  char piece[4096];
  while (const size_t n = std::fread(piece, 1, sizeof piece, pipe)) text.append(piece, n);
  const int status = ::pclose(pipe);
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), text};
}

inline std::string quoted(const fs::path& file) { return "'" + file.string() + "'"; }

// A net with its files, and what it gives.
struct Exported {
  ScratchFolder folder;
  nn::HybridSequential net{nn::Dense(4, {.activation = "relu"}), nn::Dense(2)};
  NDArray x = nd.arange(6).reshape({2, 3}), y;
  Exported() {
    net.initialize(init::One());
    net.hybridize();
    y = net(x);
    net.export_model((folder / "net").string());
    npy::save(folder / "x.npy", x);
  }
};

}  // namespace tools_test
#endif
