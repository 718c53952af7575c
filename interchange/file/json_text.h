// JSON inside of files, read by Boost.JSON.
#pragma once

#include <boost/json/value.hpp>
#include <string_view>

#include "kaon/interchange/file/file_bytes.h"

namespace kaon::interchange {

// The value of the text in [at, at + bytes), after which only white space may come. Throws IoError, naming the byte,
// for text that is no JSON, that nests deeper than 32, or that names a key of one object twice.
boost::json::value parse_json(const FileBytes& file, uint64_t at, uint64_t bytes, std::string_view what);

}  // namespace kaon::interchange
