// A process of the test program's own, for a test to kill.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace kaon::test {

// Starts a process that runs the hidden test of this name, which finds the folder by child_folder(). Its standard
// output goes nowhere.
pid_t start_child(const std::string& test, const std::filesystem::path& folder);

// The folder that the process was started with; null where it is nobody's child.
const char* child_folder();

}  // namespace kaon::test
