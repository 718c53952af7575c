// KAON_API: what a shared libkaon.so exports. Public headers open their namespace with it, which is enough for classes
// and for g++; clang takes the visibility of a function or variable from its own declaration, so these have it as well.
#pragma once

#ifdef KAON_SHARED  // defined for the library's sources and for programs that link with it
#define KAON_API [[gnu::visibility("default")]]
#else
#define KAON_API
#endif
