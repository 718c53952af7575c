// What other libraries call the parameters of layers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kaon::gluon {

// The names that a parameter of Kaon's may have where PyTorch's is called so, by its dotted path.
std::vector<std::string> names_for_pytorch(std::string_view name);
// Whether Kaon's layers have nothing of the kind, and need nothing.
bool is_passed_over(std::string_view name);

}  // namespace kaon::gluon
