/* plua: Lua whose global state outlives the process.
 *
 *     plua HEAP [SCRIPT [ARGUMENT ...]]       without SCRIPT: standard input
 *
 * The whole Lua state, globals, functions, closures, coroutines, lies in a heap of perdure's. A script that ends without an error commits; an error, or a
 * kill at any moment, leaves the state of the last commit; perdure.commit() commits in the middle.
 *
 * What this needs of Lua is an allocator. What it needs of the program is that C functions and Lua's static tables are where they were: so it is
 * linked at a fixed address, and a heap is refused by another build. Open files do not outlive a process, so io has no open. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <perdure.h>
#include <stdio.h>
#include <string.h>

static perdure *heap;

static int fail(const char *what, const char *why) {
    fprintf(stderr, "plua: %s: %s\n", what, why);
    return 1;
}

static void *allocate(void *context, void *block, size_t old_size, size_t new_size) {
    (void)context, (void)old_size;
    if (new_size)
        return perdure_realloc(heap, block, new_size);
    perdure_free(heap, block);
    return NULL;
}

static int commit(lua_State *L) {
    return perdure_commit(heap) ? luaL_error(L, "%s", perdure_message()) : 0;
}

/* A number that another build of this program has not. */
static unsigned long build(void) {
    unsigned long hash = 14695981039346656037ul;
    FILE *self = fopen("/proc/self/exe", "rb");
    for (int c; self && (c = getc(self)) != EOF;)
        hash = (hash ^ (unsigned long)c) * 1099511628211ul;
    if (self)
        fclose(self);
    return hash;
}

/* What belongs to the process and not to the state, each time anew. */
static void attach(lua_State *L, int count, char **arguments) {
    static const luaL_Reg functions[] = {{"commit", commit}, {NULL, NULL}};
    luaL_newlib(L, functions);
    lua_setglobal(L, "perdure");
    lua_pushnil(L); /* io's standard files are the old process' */
    lua_setfield(L, LUA_REGISTRYINDEX, "_IO_input");
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushnil(L);
    lua_setfield(L, -2, LUA_IOLIBNAME);
    luaL_requiref(L, LUA_IOLIBNAME, luaopen_io, 1);
    static const char *const opening[] = {"open", "popen", "tmpfile", "lines", "input", "output"};
    for (size_t i = 0; i < sizeof opening / sizeof *opening; i++) {
        lua_pushnil(L);
        lua_setfield(L, -2, opening[i]);
    }
    lua_newtable(L);
    for (int i = 0; i < count; i++) {
        lua_pushstring(L, arguments[i]);
        lua_rawseti(L, -2, i);
    }
    lua_setglobal(L, "arg");
    lua_settop(L, 0);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return fail("usage", "plua HEAP [SCRIPT [ARGUMENT ...]]");
    if (perdure_open(argv[1], NULL, &heap))
        return fail("cannot open the heap", perdure_message());
    unsigned long *made_by = perdure_root(heap, "build");
    lua_State *L = perdure_root(heap, "lua");
    if (L && *made_by != build())
        return fail(argv[1], "made by another build of plua, whose functions lie elsewhere");
    if (!L) {
        made_by = perdure_malloc(heap, sizeof *made_by);
        L = lua_newstate(allocate, NULL);
        if (!made_by || !L)
            return fail("cannot make a state", perdure_message());
        *made_by = build();
        luaL_openlibs(L);
        if (perdure_set_root(heap, "build", made_by) || perdure_set_root(heap, "lua", L))
            return fail("cannot name the state", perdure_message());
    }
    attach(L, argc - 2, argv + 2);
    lua_State *run = lua_newthread(L); /* with the calls that a killed run was in when it committed: garbage at the next one */
    if (luaL_loadfile(run, argc > 2 ? argv[2] : NULL) || lua_pcall(run, 0, 0, 0))
        return fail("nothing was committed", lua_tostring(run, -1));
    fflush(stdout);
    if (perdure_commit(heap) || perdure_close(heap))
        return fail("cannot commit", perdure_message());
    return 0;
}
