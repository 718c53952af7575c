#include "kaon/tests/support/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

extern char** environ;

namespace kaon::test {

namespace {
constexpr const char* variable = "KAON_TEST_CHILD_FOLDER";
}

pid_t start_child(const std::string& test, const std::filesystem::path& folder) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string setting = std::string(variable) + "=" + folder.string(), name = test, path = program;
  std::vector<char*> environment{setting.data()};
  for (char** e = environ; *e; ++e) environment.push_back(*e);
  environment.push_back(nullptr);
  char* arguments[] = {path.data(), name.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failure = posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  REQUIRE(failure == 0);
  return child;
}

const char* child_folder() { return std::getenv(variable); }

}  // namespace kaon::test
