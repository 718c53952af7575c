// What asio_server and its clients say to each other over a TCP connection. Numbers are little-endian.
//
//   request   uint32 length in bytes, then so many bytes of float32: 1 to max_rows samples, one after another
//   reply     uint8 status, uint32 length in bytes, then so many bytes: of float32 for status 0, else of text in UTF-8
//   status    0  the net's outputs for these samples
//             1  the length is not that of 1 to max_rows samples: nothing was computed, the connection goes on
//             2  the length is beyond all reason (Service::longest): the connection is closed after this reply
//             3  the net has failed on this request: the connection goes on
// Replies come in the order of the requests. A client may send Session::ahead requests before it reads; what it sends
// beyond that waits in the network. One that closes its side of the connection is taken for gone: its requests that are
// still queued are dropped. So it keeps that open until it has its last reply.
#pragma once

#include <bit>
#include <cstdint>

namespace examples {

static_assert(std::endian::native == std::endian::little, "numbers are sent as they lie in memory");

enum class Status : uint8_t { ok, bad_length, too_long, failed };

}  // namespace examples
