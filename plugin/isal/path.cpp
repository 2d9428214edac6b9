// Nothing: this library is only a name to link against. See CMakeLists.txt.
