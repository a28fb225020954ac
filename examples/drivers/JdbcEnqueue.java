import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;

/** JdbcEnqueue URL TOPIC: enqueues a message, prints its id. */
public class JdbcEnqueue {
    public static void main(String[] args) throws Exception {
        try (Connection connection = DriverManager.getConnection(args[0])) {
            connection.setAutoCommit(false);
            try (PreparedStatement statement = connection.prepareStatement(
                    "SELECT outbox.enqueue(?, ?, ?, ?, topic => ?)")) {
                statement.setString(1, "order");
                statement.setLong(2, 42);
                statement.setString(3, "order_paid");
                statement.setString(4, "{\"amount\": \"9.90\"}");
                statement.setString(5, args[1]);
                try (ResultSet result = statement.executeQuery()) {
                    result.next();
                    System.out.println(result.getObject(1));
                }
            }
            connection.commit();
        }
    }
}
