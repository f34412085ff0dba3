// Declares CLI11's names for headers, because its own header takes four seconds to compile.
#pragma once

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI
