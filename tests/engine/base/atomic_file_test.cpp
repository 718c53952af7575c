#include "kaon/engine/base/atomic_file.h"

#include <catch2/catch.hpp>
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

TEST_CASE("atomic file: what is no file, and no folder, is refused", "[engine]") {
  const ScratchFolder folder;
  CHECK_THROWS_AS(write_file(folder / "no" / "a", "x"), IoError);
  CHECK_THROWS_AS(write_file(folder / ".", "x"), IoError);
  CHECK_THROWS_AS(write_file("/dev/null", "x"), IoError);
  CHECK(folder.count() == 0);
}

}  // namespace atomic_file_test
