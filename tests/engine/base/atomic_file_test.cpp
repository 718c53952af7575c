#include "kaon/engine/base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

#include "kaon/engine/error.h"
#include "kaon/tests/support/files.h"

namespace atomic_file_test {

using namespace kaon;
using namespace kaon::test;
using engine::AtomicFile;
using engine::write_file;

TEST_CASE("atomic file: the old file stays until the new one is whole", "[engine]") {
  const ScratchFolder folder;
  write_file(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new", 3);
    CHECK(bytes_of(folder / "a") == "old");
  }  // without commit
  CHECK(bytes_of(folder / "a") == "old");
  CHECK(folder.count() == 1);
  {
    AtomicFile file(folder / "a");
    file.write("ne", 2);
    file.write("w", 1);
    file.commit();
  }
  CHECK(bytes_of(folder / "a") == "new");
  CHECK(folder.count() == 1);
  write_file(folder / "empty", "");
  CHECK(fs::file_size(folder / "empty") == 0);
}

TEST_CASE("atomic file: what a symbolic link names is replaced", "[engine]") {
  const ScratchFolder folder;
  write_file(folder / "a", "old");
  fs::create_symlink(folder / "a", folder / "link");
  write_file(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(bytes_of(folder / "a") == "new");
}

TEST_CASE("atomic file: what a killed save has left is removed by the next, and what one writes is not", "[engine]") {
  const ScratchFolder folder;
  const fs::path left = folder / "a.kaon-0.tmp";
  write_file(folder / "a", "old");
  write_file(left, "half");
  write_file(folder / "b.kaon-0.tmp", "of another file");
  write_file(folder / "a", "new");
  CHECK(bytes_of(folder / "a") == "new");
  CHECK_FALSE(fs::exists(left));
  CHECK(folder.count() == 2);
  // as a save of another process that is between its two names
  write_file(left, "half");
  const int held = ::open(left.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(::flock(held, LOCK_EX | LOCK_NB) == 0);
  write_file(folder / "a", "newer");
  CHECK(bytes_of(folder / "a") == "newer");
  CHECK(bytes_of(left) == "half");
  CHECK(folder.count() == 3);
  ::close(held);
  write_file(folder / "a", "newest");
  CHECK(folder.count() == 2);
}

TEST_CASE("atomic file: processes that are killed while they save leave the file whole, and at most one name",
          "[engine]") {
  const ScratchFolder folder;
  const std::string one(100'000, '1'), two(100'000, '2');
  write_file(folder / "a", one);
  for (int i = 0; i < 40; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      while (true) write_file(folder / "a", two), write_file(folder / "a", one);
    }
    ::usleep(useconds_t(500 + i * 400));
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    const std::string bytes = bytes_of(folder / "a");
    CHECK((bytes == one || bytes == two));
    CHECK(folder.count() <= 2);
  }
  write_file(folder / "a", one);
  CHECK(folder.count() == 1);
}

TEST_CASE("atomic file: what is no file, and no folder, is refused", "[engine]") {
  const ScratchFolder folder;
  CHECK_THROWS_AS(write_file(folder / "no" / "a", "x"), IoError);
  CHECK_THROWS_AS(write_file(folder / ".", "x"), IoError);
  CHECK_THROWS_AS(write_file("/dev/null", "x"), IoError);
  CHECK(folder.count() == 0);
}

}  // namespace atomic_file_test
